"""Free memory: what the machine says, and what its container leaves of that."""

from ocbnn.resources import UNKNOWN, free_memory


def test_the_memory_that_is_free_is_what_the_machine_and_its_container_leave(tmp_path):
    machine = tmp_path / "meminfo"
    machine.write_text("MemTotal: 2000 kB\nMemFree: 10 kB\nMemAvailable: 1000 kB\nHugePages_Total: 0\n")
    assert free_memory(machine, tmp_path) == 1000 * 1024
    for name, content in (("max", "600000"), ("current", "500000"), ("stat", "anon 7\nfile 50000\n")):
        (tmp_path / f"memory.{name}").write_text(content)
    assert free_memory(machine, tmp_path) == 150_000  # caches make room
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory(machine, tmp_path) == 1000 * 1024


def test_where_the_system_does_not_say_what_is_free_there_is_still_a_limit(tmp_path):
    assert 0 < free_memory(tmp_path / "nowhere", tmp_path) <= UNKNOWN
    assert 0 < free_memory() <= UNKNOWN
