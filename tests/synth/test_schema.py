import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelspace.errors import ReelspaceError
from reelspace.synth import schema
from reelspace.synth.schema import Clip, Negative, Part, Picture, Provenance, Rejection, Row

words = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
times = st.floats(0, 1e4)
parts = st.builds(
    Part,
    id=words,
    video=words,
    text=st.none() | words,
    image=st.none() | st.builds(Picture, path=words, time=st.none() | times),
    clip=st.none() | st.builds(Clip, path=words, start=times, end=st.none() | times),
)
provenances = st.builds(
    Provenance,
    source=words,
    seed=st.integers(0, 2**31),
    frame_times=st.lists(times, max_size=3),
    scores=st.dictionaries(words, times, max_size=3),
)
rows = st.builds(
    Row,
    id=words,
    task=st.sampled_from(list(schema.TASKS)),
    instruction=words,
    query=parts,
    candidate=parts,
    negatives=st.lists(st.builds(Negative, part=parts, score=times), max_size=2),
    provenance=provenances,
)


@given(st.lists(rows, max_size=3))
def test_rows_come_back_as_they_went(tmp_path_factory, made):
    path = tmp_path_factory.mktemp("rows") / "a.parquet"
    schema.write_parquet(made, schema.row_schema(), path)
    assert [Row.model_validate(line) for line in schema.read_parquet(path)] == made


def test_the_columns_are_those_of_the_models():
    def names(kind, model):
        for name, field in model.model_fields.items():
            assert kind.get_field_index(name) >= 0 if hasattr(kind, "get_field_index") else name in kind.names, name
            assert field is not None

    table = schema.row_schema()
    names(table, Row)
    names(table.field("query").type, Part)
    names(table.field("provenance").type, Provenance)
    names(schema.rejection_schema(), Rejection)
    assert len(table.field("provenance").type) == len(Provenance.model_fields)


def test_what_is_no_dataset_is_refused(tmp_path):
    with pytest.raises(ReelspaceError, match="no synthesised set"):
        list(schema.rows(tmp_path, "T2V"))
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "data" / "T2V").mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "data" / "T2V" / "x.parquet")
    with pytest.raises(ReelspaceError, match="version 1"):
        list(schema.rows(tmp_path, "T2V"))


def test_the_shares_are_those_of_the_papers_table():
    assert sum(task.share for task in schema.TASKS.values()) == pytest.approx(1, abs=0.005)
    assert {name: task.negatives for name, task in schema.TASKS.items() if task.negatives} == {
        "T2V": 1,
        "TI2V": 1,
        "TV2V": 1,
    }
