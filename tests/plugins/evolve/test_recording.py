"""Recording: whose commit it is that holds what a hook changed, where calls overlap."""

from tests.plugins.evolve.living import living, workspace


async def test_calls_of_two_sessions_that_have_the_same_id_are_kept_apart(tmp_path, kit):
    root = workspace(tmp_path / "ws")
    (root / "mine.md").write_text("as it was")
    async with living(root) as on:
        recording = on.engine.recording
        (root / "mine.md").write_text("changed by a person")
        async with recording.recording("slow", "ses_1", "call_1") as first:
            async with recording.recording("quick", "ses_2", "call_1") as second:
                await recording.named("ses_1", "call_1", ["mine.md"])
                (root / "quick.md").write_text("x")
            (root / "slow.md").write_text("x")
        assert (first.named, second.named) == (["mine.md"], [])
        assert on.subjects()[:2] == ["slow", "quick, slow"]
        assert kit.git(root, "show", "HEAD:mine.md") == "as it was"


async def test_what_is_named_under_another_key_belongs_to_the_call_around_it_and_else_to_none(tmp_path, kit):
    root = workspace(tmp_path / "ws")
    (root / "mine.md").write_text("as it was")
    async with living(root) as on:
        recording = on.engine.recording
        (root / "mine.md").write_text("changed by a person")
        async with recording.recording("beat", "", "beat 1") as beat:
            await recording.named("ses_1", "beat 1 at noon", ["mine.md"])
        await recording.named("ses_1", "beat 1", ["mine.md"])
        assert beat.named == ["mine.md"]
        assert on.subjects() == ["initial"]


async def test_a_call_that_never_came_to_its_end_is_beside_no_later_one(tmp_path, kit):
    root = workspace(tmp_path / "ws")
    async with living(root) as on:
        recording = on.engine.recording
        await recording.watch("bash", "ses_1", "call_1")
        await recording.watch("bash", "ses_1", "call_1")
        await recording.watched("bash", "ses_1", "call_1")
        async with recording.recording("later", "ses_1", "call_2"):
            (root / "later.md").write_text("x")
        assert on.subjects()[0] == "later"


async def test_a_change_that_two_calls_find_is_published_once(tmp_path):
    root = workspace(tmp_path / "ws")
    async with living(root) as on:
        recording = on.engine.recording
        slow = recording.recording("slow", "ses_1", "call_1")
        async with slow, recording.recording("quick", "ses_1", "call_2"):
            (root / "one.md").write_text("x")
            await recording.named("ses_1", "call_1", ["one.md"])
        told = [one.properties.file for one in on.client.published if one.type == "file.edited"]
        assert told == [str(root / "one.md")]
