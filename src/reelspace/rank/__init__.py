"""Second looks at what was found: rerankers, exclusion, fusion, and the calibrated “no match”."""
