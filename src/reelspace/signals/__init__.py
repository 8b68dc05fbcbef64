"""Words in a video that are not its picture: what is said in it, what is written in it, what it is called."""
