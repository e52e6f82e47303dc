"""Finding, downloading and verifying published files; downloads are real ones, of `file:` addresses."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from ocbnn.errors import FileError
from reproduce.data.sources import VARIABLE, Source, data_folder, digest, downloaded, locate

TEXT = "id,name,amount\n1,a,1\n2,b,2.5\n"


@pytest.fixture
def published(tmp_path: Path) -> Path:
    path = tmp_path / "public" / "things.csv"
    path.parent.mkdir()
    path.write_text(TEXT)
    return path


def source(published: Path, **changes: object) -> Source:
    options = {
        "folder": "things",
        "file": "things.csv",
        "url": published.as_uri(),
        "sha256": digest(published),
        "remedy": "Ask the librarian.",
    }
    return Source(**{**options, **changes})  # type: ignore[arg-type]


def test_a_given_path_is_the_file_or_a_folder_with_it(published: Path, tmp_path: Path) -> None:
    wanted = source(published)
    assert locate(wanted, published) == published
    assert locate(wanted, published.parent) == published
    laid_out = tmp_path / "data" / "things" / "THINGS.CSV.gz"
    laid_out.parent.mkdir(parents=True)
    laid_out.write_bytes(gzip.compress(TEXT.encode()))
    assert locate(wanted, tmp_path / "data") == laid_out
    with pytest.raises(FileError, match=r"neither things\.csv nor a folder with it"):
        locate(wanted, tmp_path / "nowhere")


def test_without_a_path_the_variable_names_the_folder(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / "things").mkdir(parents=True)
    kept = tmp_path / "data" / "things" / "things.csv"
    kept.write_text(TEXT)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "data"))
    assert locate(source(published)) == kept
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(FileError, match=r"OCBNN_DATA names .*nowhere, which is not a folder"):
        locate(source(published))
    monkeypatch.delenv(VARIABLE)
    assert data_folder() is None


def test_a_download_is_verified_and_kept(published: Path, tmp_path: Path) -> None:
    wanted = source(published)
    kept = downloaded(wanted, tmp_path / "cache")
    assert gzip.decompress(kept.read_bytes()).decode() == TEXT
    assert digest(kept) == wanted.sha256
    published.unlink()
    assert downloaded(wanted, tmp_path / "cache") == kept


def test_another_file_than_expected_is_not_kept(published: Path, tmp_path: Path) -> None:
    wanted = source(published, sha256="0" * 64)
    with pytest.raises(FileError, match=r"not the file that was expected.*Ask the librarian"):
        downloaded(wanted, tmp_path / "cache")
    assert list((tmp_path / "cache" / "things").iterdir()) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a table of text"),
        (b"\x89PNG\r\n\x1a\n\x00\xff\xfe", "not a table of text"),
        (b'id,name,amount\n1,"a,1\n', "not a table of text"),
        (b"<html>sign in</html>\n", "no column 'id'"),
    ],
    ids=["empty", "binary", "torn", "page"],
)
def test_a_download_that_is_no_table_says_what_to_do(
    published: Path, tmp_path: Path, content: bytes, said: str
) -> None:
    wanted = source(published, columns=("id", "name", "amount"))
    published.write_bytes(content)
    with pytest.raises(FileError, match=rf"things\.csv.*{said}.*not kept.*Ask the librarian.*{VARIABLE}"):
        downloaded(wanted, tmp_path / "cache")
    assert list((tmp_path / "cache" / "things").iterdir()) == []


@pytest.mark.parametrize("damage", ["another row", "torn", "empty"])
def test_a_file_is_verified_whenever_it_is_used(
    damage: str, published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the cache it is fetched again; elsewhere it is the user's own, and refused."""
    wanted = source(published)
    kept = downloaded(wanted, tmp_path / "cache")
    whole = kept.read_bytes()
    damaged = {"another row": gzip.compress(TEXT[:-6].encode()), "torn": whole[:-9], "empty": b""}[damage]
    kept.write_bytes(damaged)
    assert gzip.decompress(downloaded(wanted, tmp_path / "cache").read_bytes()).decode() == TEXT
    kept.write_bytes(damaged)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    for given in (None, kept, kept.parent):
        with pytest.raises(FileError, match=r"things\.csv\.gz.*(not all of it|damaged).*Ask the librarian"):
            locate(wanted, given)


class Interrupted(BaseHTTPRequestHandler):
    """A server that promises all of a file and hangs up in the middle of it."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        if self.path == "/chunked.csv":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"1000\r\n" + TEXT[:20].encode())
        else:
            self.send_header("Content-Length", str(len(TEXT)))
            self.end_headers()
            self.wfile.write(TEXT[:20].encode())
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Servers of tests say nothing."""


@pytest.fixture
def interrupted() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Interrupted) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("name", "said"),
    [("whole.csv", "ended after 20 of 29 bytes.*Try again"), ("chunked.csv", "IncompleteRead")],
)
def test_a_download_that_breaks_off_is_not_kept(
    name: str, said: str, interrupted: str, published: Path, tmp_path: Path
) -> None:
    wanted = source(published, url=f"{interrupted}/{name}")
    with pytest.raises(FileError, match=rf"{said}.*Ask the librarian.*{VARIABLE}"):
        downloaded(wanted, tmp_path / "cache")
    assert list((tmp_path / "cache" / "things").iterdir()) == []


def test_a_folder_where_a_file_should_be_is_an_error_in_words(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = source(published)
    (tmp_path / "data" / "things" / "things.csv").mkdir(parents=True)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "data"))
    with pytest.raises(FileError, match=r"things\.csv is a folder where a file should be"):
        locate(wanted)
    (tmp_path / "cache" / "things" / "things.csv.gz" / "sub").mkdir(parents=True)
    with pytest.raises(FileError, match=r"things\.csv\.gz cannot be written"):
        downloaded(wanted, tmp_path / "cache")
    (tmp_path / "cache2").write_text("")
    with pytest.raises(FileError, match="cannot be written"):
        downloaded(wanted, tmp_path / "cache2")


def test_a_failed_download_says_what_to_do(published: Path, tmp_path: Path) -> None:
    wanted = source(published, url=(tmp_path / "gone.csv").as_uri())
    with pytest.raises(FileError, match=rf"could not be downloaded.*Ask the librarian.*{VARIABLE}"):
        downloaded(wanted, tmp_path / "cache")


def test_the_checksum_of_columns_sees_values_and_nothing_else(tmp_path: Path) -> None:
    def of(text: str) -> str:
        (tmp_path / "x.csv").write_text(text)
        return digest(tmp_path / "x.csv", ("id", "name", "amount"))

    known = of(TEXT)
    assert of('ID,extra,name,amount\n2,?,"b",2.50\n1,!,a,1.0\n') == known
    assert of("id,name,amount\n1,a,1\n2,b,2.6\n") != known
    assert of("id,name,amount\n1,a,1\n2,c,2.5\n") != known
    with pytest.raises(FileError, match="no column 'amount'"):
        of("id,name\n1,a\n")
