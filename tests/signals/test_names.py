from reelspace.media.about import About, Cue
from reelspace.signals.names import date, name_of_file, names_of, place, spelt


def told(tags, chapters=()):
    found = names_of(About(tags, list(chapters), [], []), 60.0)
    return [(line.source, line.text, line.start, line.end) for line in found.lines]


def test_tags_that_name_something_are_taken_and_programs_remarks_are_not():
    tags = {
        "title": " The  Launch ",
        "encoder": "Lavf61",
        "major_brand": "isom",
        "artist": "Ada",
        "album_artist": "ada",
    }
    assert told(tags) == [("title", "The Launch", 0.0, 60.0), ("artist", "Ada", 0.0, 60.0)]


def test_chapters_are_named_where_they_are():
    assert told({}, [Cue(10.0, 20.0, "Pricing")]) == [("chapter", "Pricing", 10.0, 20.0)]


def test_coordinates_are_read_and_other_places_left_as_they_are():
    assert place("+48.8577+002.2950+035.000/") == "48.8577° N 2.2950° E"
    assert place("-33.8568+151.2153/") == "33.8568° S 151.2153° E"
    assert place("Tour Eiffel, Paris") == "Tour Eiffel, Paris"
    assert place("+4851.46+00217.70/") == "+4851.46+00217.70/"  # degrees and minutes: not guessed at


def test_dates_are_said_as_people_say_them_and_clocks_that_were_not_set_are_not():
    assert date("2021-06-05T10:00:00+02:00") == "Saturday 5 June 2021 (2021-06-05)"
    assert date("1999") == "1999"
    assert date("1904-01-01T00:00:00.000000Z") is None
    assert date("next week") is None


def test_a_date_is_told_once_by_the_clock_that_knows_its_zone():
    tags = {"creation_time": "2021-06-04T23:30:00Z", "com.apple.quicktime.creationdate": "2021-06-05T01:30:00+02:00"}
    assert told(tags) == [("date", "Saturday 5 June 2021 (2021-06-05)", 0.0, 60.0)]


def test_names_are_spelt_out():
    assert spelt("IMG_2034-holidayInRome.final") == "IMG 2034 holiday In Rome final"
    assert spelt("GX010042") == "GX 010042"
    assert spelt("2024trip") == "2024 trip"
    assert spelt("café_übung") == "café übung"


def test_a_file_is_named_with_its_folders_from_the_root_down():
    found = name_of_file("/media/me/Videos/2023 Italy/rome_day2.mp4", "/media/me/Videos", 9.0)
    assert found.passages[0].text == "Videos / 2023 Italy / rome day2 (rome_day2)"
    assert found.lines[0].text == "rome_day2.mp4"
    assert name_of_file("/media/a.mp4", "/media/a.mp4", 9.0).passages[0].text == "media / a"
    assert name_of_file("/media/b/plain.mp4", None, 9.0).passages[0].text == "b / plain"


def test_a_name_that_is_no_text_can_be_searched_for_what_of_it_is():
    assert "caf" in name_of_file("/v/caf\udce9.mp4", "/v", 1.0).passages[0].text
