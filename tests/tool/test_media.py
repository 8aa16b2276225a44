"""What `read` does with images and PDFs."""

import base64
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from instar.plugin.tool import ToolFailure
from instar.tool import media, read

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.mark.parametrize(
    ("head", "mime"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0 jpeg", "image/jpeg"),
        (b"GIF89a....", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
async def test_an_image_is_attached_whatever_its_name(
    ctx: Any, call: Any, project: Path, head: bytes, mime: str
) -> None:
    (project / "picture.txt").write_bytes(head)
    result = await call(read.TOOL, ctx, filePath="picture.txt")
    (file,) = result.attachments
    assert (file.mime, file.filename, file.message_id) == (mime, "picture.txt", "msg_1")
    assert base64.b64decode(file.url.partition(",")[2]) == head
    assert result.output == f"picture.txt is an image ({mime}, {len(head)} bytes); it is attached."


async def test_an_image_that_no_model_would_take_is_refused(ctx: Any, call: Any, project: Path) -> None:
    with (project / "huge.png").open("wb") as file:
        file.write(PNG)
        file.truncate(media.LARGEST_IMAGE + 1)
    with pytest.raises(ToolFailure, match="larger than 5 MiB; make a smaller copy"):
        await call(read.TOOL, ctx, filePath="huge.png")


def pdf(*pages: str) -> bytes:
    """A PDF with these lines of text, one a page."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids = []
    for text in pages:
        stream = f"BT /F1 12 Tf 10 10 Td ({text}) Tj ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        font = "<< /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents {len(objects)} 0 R"
            f" /Resources << /Font {font} >> >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    start = len(data)
    trailer = f"<< /Size {len(objects) + 1} /Root 1 0 R >>"
    data += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode()
    return data + f"trailer\n{trailer}\nstartxref\n{start}\n%%EOF".encode()


@pytest.mark.slow
async def test_a_pdfs_text_comes_page_by_page_with_line_numbers(ctx: Any, call: Any, project: Path) -> None:
    (project / "a.pdf").write_bytes(pdf("Hello there", "Second"))
    result = await call(read.TOOL, ctx, filePath="a.pdf")
    assert "1: --- page 1 ---\n2: Hello there\n3: --- page 2 ---\n4: Second\n" in result.output
    part = await call(read.TOOL, ctx, filePath="a.pdf", offset=4)
    assert "<content>\n4: Second\n\n(End of file - total 4 lines)" in part.output
    with pytest.raises(ToolFailure, match="Offset 9 is out of range"):
        await call(read.TOOL, ctx, filePath="a.pdf", offset=9)


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"%PDF-1.7 and then nothing", "cannot be read as a PDF"), (pdf(""), "holds no text")],
)
async def test_a_pdf_without_readable_text_is_said(
    ctx: Any, call: Any, project: Path, data: bytes, said: str
) -> None:
    (project / "a.pdf").write_bytes(data)
    with pytest.raises(ToolFailure, match=said):
        await call(read.TOOL, ctx, filePath="a.pdf")


async def test_without_the_library_the_answer_says_how_to_get_it(
    ctx: Any, call: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (project / "a.pdf").write_bytes(pdf("x"))
    with pytest.raises(ToolFailure, match=r"install .*'pypdf>=6'"):
        await call(read.TOOL, ctx, filePath="a.pdf")


async def test_a_pdf_that_takes_too_long_is_given_up(
    ctx: Any, call: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media, "PDF_SECONDS", 0.001)
    (project / "a.pdf").write_bytes(pdf("x"))
    with pytest.raises(ToolFailure, match="could not be read within"):
        await call(read.TOOL, ctx, filePath="a.pdf")
