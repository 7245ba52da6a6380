# SPDX-License-Identifier: GPL-2.0
"""Tests of the runner of the suites, as TAP. Nothing is booted, nothing is built."""

import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from hosts import ORDER
from weftlab import plan
from weftlab import suite as lab_suite
from weftlab.errors import LabError
from weftlab.speed import memory
from weftlab.speed.figures import Figures
from weftlab.speed.machines import Samples

from . import command, job, output, part, record, runner, status, suite


def job_of(name, seconds, line="echo ok 1 - it; echo 1..1", **more):
    return job.Job(name, "", line, seconds, more.pop("limit", 1), **more)


def lab(*words, environment=()):
    """What scripts/lab/check says to words of its command line."""
    args = [command.TOP / "scripts" / "lab" / "check", *words]
    return subprocess.run(args, env=os.environ | dict(environment), check=True, text=True,
                          stdout=subprocess.PIPE).stdout  # fmt: skip


class Documents(unittest.TestCase):
    def test_the_table_of_modules_has_each_module_of_the_lab(self):
        text = (command.TOP / "Documentation" / "testing.rst").read_text()
        table = re.search(r"^module +what$.*?^Fuzzing$", text, re.M | re.S)[0]
        listed = re.findall(r"^``(\w+)`` ", table, re.M)
        self.assertEqual(sorted(listed), sorted(ORDER))

    def test_the_files_that_documents_name_are_there(self):
        named = re.compile(r"`((?:scripts|tools|rust|qemu|include|Documentation|bench)/[\w./-]+)`")
        documents = [*command.TOP.glob("*.md"), *(command.TOP / "Documentation").rglob("*.rst")]
        missing = {
            f"{document.name}: {name}"
            for document in documents
            for name in named.findall(document.read_text())
            if not (command.TOP / name).exists()
        }
        self.assertEqual(missing, set())

    def test_every_page_of_the_documentation_is_listed_where_reading_begins(self):
        text = "".join((command.TOP / name).read_text() for name in ("README.md", "CONTRIBUTING.md"))
        pages = [page.name for page in (command.TOP / "Documentation").glob("*.rst")]
        self.assertEqual([page for page in pages if f"(Documentation/{page})" not in text], [])

    def test_names_that_documents_use_are_in_the_code(self):
        # Macros and variables, functions, and paths such as `Type::name`.
        names = re.compile(r"\bWEFT_[A-Z0-9_]+|`\w+\(\)`|`\w+(?:::\w+)+(?:\(\))?`")
        known = set(re.findall(r"\w+", (command.TOP / "Makefile").read_text()))
        for folder in ("include", "modules", "qemu", "rust", "samples", "scripts", "tools"):
            for path in filter(pathlib.Path.is_file, (command.TOP / folder).rglob("*")):
                known |= set(re.findall(r"\w+", path.read_text(errors="ignore")))
        # WEFT_EP_* stands for all that begin so.
        known |= {name[: end + 1] for name in known for end in range(len(name)) if name[end] == "_"}
        for document in [*command.TOP.glob("*.md"), *(command.TOP / "Documentation").rglob("*.*")]:
            if document.is_file():
                named = set(re.findall(r"\w+", " ".join(names.findall(document.read_text()))))
                self.assertEqual(named - known, set(), document.name)

    def test_the_manual_of_the_port_has_each_property_with_its_default(self):
        text = (command.TOP / "Documentation" / "hardware.rst").read_text()
        table = text[text.index("Property          Default") :]
        listed = dict(re.findall(r"(?m)^``([a-z-]+)`` +(\w+)  ", table))
        code = (command.TOP / "qemu" / "weft" / "weft_port.c").read_text()
        short = {"16 * MiB": "16M", "false": "off"}
        found = re.findall(r'DEFINE_PROP_\w+\("([a-z-]+)", WeftPort, [\w.]+, ([^)]+)\)', code)
        found += re.findall(r's->(node) = g_strdup\("(\w+)"\)', code)
        self.assertEqual(listed, {name: short.get(value, value) for name, value in found})

    def test_each_fault_is_told_of_port_driver_and_fabric(self):
        manual = (command.TOP / "Documentation" / "hardware.rst").read_text()
        tables = re.findall(r"(?ms)^Fault  [^\n]+\n=+  =+\n(.*?)^=+  =+\n", manual)
        rows = [{name.lower() for name in re.findall(r"(?m)^(\w+(?: \w+)*)  ", table)} for table in tables]
        fabric = (command.TOP / "Documentation" / "fabric.rst").read_text()
        table = re.search(r"(?ms)^``inject`` ….*?^``list``", fabric)[0]
        faults = {name.replace("-", " ") for name in re.findall(r"(?m)^``([a-z-]+) ", table)}
        faults = {"slow link" if name == "slow" else name for name in faults}
        self.assertEqual(rows, [faults, faults])

    def test_the_pages_of_the_interface_have_every_ioctl(self):
        header = (command.TOP / "include" / "uapi" / "linux" / "weft.h").read_text()
        ioctls = re.findall(r"#define (WEFT_\w+)\s+_IO\(", header)
        self.assertIn("WEFT_PORT_INFO", ioctls)
        page = (command.TOP / "Documentation" / "uapi.rst").read_text()
        self.assertEqual([name for name in ioctls if f"``{name}``" not in page], [])

    def test_the_files_in_sysfs_are_those_that_the_abi_lists(self):
        text = (command.TOP / "Documentation" / "ABI" / "testing" / "sysfs-bus-pci-drivers-weft").read_text()
        listed = set()
        for block in re.split(r"\n(?=What:)", re.sub(r"(?m)(^What:.*\n)(?=What:)", r"\1+", text)):
            mode = re.search(r"\((RO|RW|WO)\)", block)[1]
            names = re.findall(r"What:\t+/sys/bus/pci/drivers/weft/\.\.\./(\S+)", block)
            listed |= {f"{mode} {name}" for name in names}
        listed.remove("RO counters/<name>")
        table = re.search(r"(?s)counters/<name>.*?\t=+  =+\n(.*?)\t=+  =+\n", text)[1]
        listed |= {f"RO counters/{name}" for name in re.findall(r"(?m)^\t\t(\w+)", table)}

        declared = set()
        folders = {"attrs": "", "attrs/power": "link<n>/", "attrs/manager": "manager/", "attrs/vfs": "vf<n>/"}
        for path in (command.TOP / "rust").glob("attrs*/*.rs"):
            self.assertIn(f"attrs/{path.stem}", folders)
        for stem, folder in folders.items():
            root, of_links, rest = (command.TOP / "rust" / f"{stem}.rs").read_text().partition("const fn link_attrs(")
            for code, its in ((root, folder), (of_links + rest, "link<n>/")):
                shown = re.findall(r'c"(\w+)" =>|Attr::new\(\s*c"(\w+)"', code)
                declared |= {f"RO {its}{one or other}" for one, other in shown}
                declared |= {f"RW {its}{name}" for name in re.findall(r'Attr::(?:writable|choice)\(\s*c"(\w+)"', code)}
                declared |= {f"RO {its}{name}" for name in re.findall(r'Attr::private\(\s*c"(\w+)"', code)}
                declared |= {f"WO {its}{name}" for name in re.findall(r'Attr::secret\(\s*c"(\w+)"', code)}
        counters = re.search(r"(?s)COUNTER_NAMES: .*?\];", (command.TOP / "rust" / "attrs.rs").read_text())[0]
        declared |= {f"RO counters/{name}" for name in re.findall(r'c"(\w+)"', counters)}
        self.assertEqual(listed, declared)


class Mutants(unittest.TestCase):
    def test_each_mutant_can_be_made_of_the_tree_and_names_tests_that_there_are(self):
        folder = command.TOP / "tools" / "testing"
        mutants = sorted((folder / "mutants").glob("*.patch"))
        self.assertGreaterEqual(len(mutants), 3)
        for path in mutants:
            subprocess.run(("git", "apply", "--check", path), cwd=command.TOP, check=True)
            head = path.read_text().partition("\ndiff ")[0]
            unit = r"(?m)^unit: -p weft-(\w+) (?:--test (\w+)|--lib) (\w+)$"
            if found := re.search(unit, head):
                package, file, name = found.groups()
                own = command.TOP / "tools" / package
                files = [own / "tests" / f"{file}.rs"] if file else (own / "src").glob("**/*.rs")
                # A test of several files has those in a folder of its name.
                files = [*files, *(own / "tests" / str(file)).glob("**/*.rs")]
                self.assertRegex("".join(each.read_text() for each in files), rf"\bfn \w*{name}", path.name)
            else:
                # Unit tests can reach these.
                self.assertRegex(head, r"(?m)^no-unit: .+", path.name)
                self.assertNotRegex(path.read_text(), r"(?m)^\+\+\+ b/(rust/proto|tools)/", path.name)
            kind, tests = re.search(r"(?m)^(programs|lab|no-guests): (.+)$", head).groups()
            if kind == "no-guests":
                # What is in the driver can be run there, but what comes of it may be the same.
                self.assertRegex(tests, "^(the driver does not run|a program sees no difference)", path.name)
                continue
            if kind == "lab":
                self.assertTrue(lab(tests, "--list").strip(), path.name)
                continue
            for program in tests.split():
                self.assertTrue((folder / "selftests" / "weft" / f"{program}.c").exists(), path.name)


class Parts(unittest.TestCase):
    def test_every_job_is_in_exactly_one_part(self):
        rng = random.Random(7)
        for count in (1, 2, 3, 5, 8):
            for size in (0, 1, 4, 60):
                jobs = [job_of(f"j{n}", rng.randrange(1, 500)) for n in range(size)]
                dealt = [each.name for its in part.split(jobs, count) for each in its]
                self.assertEqual(sorted(dealt), sorted(each.name for each in jobs))

    def test_the_same_jobs_make_the_same_parts_in_any_order(self):
        rng = random.Random(8)
        jobs = [job_of(f"j{n}", rng.choice((10, 20, 30))) for n in range(40)]
        expected = [[each.name for each in its] for its in part.split(jobs, 3)]
        for _ in range(5):
            rng.shuffle(jobs)
            self.assertEqual([[each.name for each in its] for its in part.split(jobs, 3)], expected)

    def test_parts_are_about_equal(self):
        jobs = [job_of(f"j{n}", 10 + n % 7 * 20) for n in range(60)]
        sums = [sum(each.seconds for each in its) for its in part.split(jobs, 4)]
        self.assertLess(max(sums) - min(sums), 130)

    def test_what_is_no_part_is_refused(self):
        self.assertEqual(part.parse("2/3"), (2, 3))
        for text in ("0/2", "3/2", "1", "1/0", "a/b", "1/2/3", "-1/2"):
            with self.assertRaises(SystemExit):
                part.parse(text)


class Memory(unittest.TestCase):
    SLABS = "# name <active_objs> <num_objs> <objsize>\ntask_struct  90  95  9984  3  8 : tunables 0 0 0\n"
    AREAS = ("0xa-0xb  20480 kernel_clone+0x1/0x2 pages=4 vmalloc N0=4\n"
             "0xc-0xd  8192 weft_other+0x1/0x2 [weft] pages=64 vmalloc\n")  # fmt: skip

    def test_a_thread_is_its_description_and_its_stack(self):
        self.assertEqual(memory.thread(self.SLABS, self.AREAS), 9984 + 4 * 4096)
        for slabs, areas in (("", self.AREAS), (self.SLABS, "")):
            with self.assertRaises(LabError):
                memory.thread(slabs, areas)

    def test_simulated_peers_are_counted_once_each_and_all_else_once(self):
        samples = Samples()
        for name, values in (("port", (1000, 2000)), ("engine", (100, 100)), ("interface", (10, 20)), ("peer", (1, 2))):
            for value in values:
                samples.add(name, value)
        self.assertEqual(memory.peers(samples, 8), [1118, 2136])

    def test_each_figure_says_what_is_simulated(self):
        samples = Samples()
        parts = ("entry", "endpoint", "interface", "thread", "engine", "port", "peer", "peer-arena")
        ranks = [f"{count}-{what}" for count in memory.RANKS
                 for what in ("ranks", "peers-idle", "peers-busy", "addresses")]  # fmt: skip
        for name in (*parts, *ranks):
            samples.add(name, 64)
        figures = Figures("a tree")
        memory.report(figures, samples)
        found = {figure.id: figure for figure in figures}
        alone = {name for name in found if not re.search(r"\d", name)}
        self.assertEqual({f"match-memory-{name}" for name in parts}, alone)
        for name in found:
            real = not re.search(r"\d", name) or re.search(r"-ranks(-each)?$", name)
            self.assertEqual("simulated" in name, not real, name)
        self.assertEqual(found["match-memory-512-ranks-each"].value, 64 / 512)
        self.assertTrue(found["match-memory-entry"].met)


class Pieces(unittest.TestCase):
    """Of the lab, as it is."""

    def pieces(self, *words, environment=()):
        found = [piece["tests"] for piece in json.loads(lab(*words, "--plan", environment=environment))]
        return [name for its in found for name in its], lab(*words, "--list", environment=environment).splitlines()

    def check(self, *words, environment=()):
        dealt, listed = self.pieces(*words, environment=environment)
        self.assertEqual(sorted(dealt), sorted(listed))
        self.assertGreater(len(listed), 4)

    def test_every_test_is_in_exactly_one_piece(self):
        self.check()

    def test_so_it_is_with_less_of_them(self):
        self.check("--iommu", "--core")
        self.check("--adversarial", "selftests", "library", "links", "transfer")

    def test_so_it_is_on_kernels_that_look_closely(self):
        self.check("--kernel", "debug")
        self.check("--kernel", "kasan")

    def test_every_test_of_a_set_is_in_exactly_one_part(self):
        _, listed = self.pieces("--kernel", "debug")
        with mock.patch.object(command, "output", lambda line: lab(*line.split()[1:])):
            found = job.jobs(suite.named(["debug"])[1])
        for count in (1, 2, 4):
            dealt = [test for its in part.split(found, count) for each in its for test in each.tests]
            self.assertEqual(sorted(dealt), sorted(listed))

    def test_a_piece_runs_the_tests_of_the_plan(self):
        for piece in json.loads(lab("--plan"))[:3]:
            self.assertEqual(lab("--piece", piece["name"], "--list").splitlines(), piece["tests"])

    def test_tests_of_a_piece_ask_for_one_lab_and_keep_their_order(self):
        tests = lab_suite.find("hosts")
        places = {each.full_name: place for place, each in enumerate(tests)}
        for piece in plan.pieces(tests):
            self.assertEqual(len({each.lab for each in piece.tests}), 1, piece.name)
            order = [places[each.full_name] for each in piece.tests]
            self.assertEqual(order, sorted(order), piece.name)

    def test_what_takes_long_is_cut(self):
        tests = [mock.Mock(full_name=f"t{n}", lab="one" if n < 30 else "two") for n in range(40)]
        found = plan.pieces(tests, {each.full_name: 20.0 for each in tests})
        self.assertGreater(len(found), 3)
        self.assertLessEqual(max(piece.seconds for piece in found), plan.LONGEST + plan.BOOT + 20)
        self.assertEqual(sorted(t.full_name for p in found for t in p.tests), sorted(t.full_name for t in tests))

    def test_weights_are_of_tests_that_there_are(self):
        names = {each.full_name for each in lab_suite.find("hosts")}
        # A name may have numbers of the environment in it.
        strange = [name for name in plan.weights() if name not in names and name.partition(":")[0] in ORDER]
        self.assertEqual(strange, [])
        self.assertGreater(len(names & plan.weights().keys()), len(names) * 3 // 4)

    def test_weights_are_those_measured_and_of_others_as_they_were(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "weights"
            plan.weigh([{"test": "a: b | c", "wall": 1.25}, {"test": "d: e", "wall": 2}], path)
            plan.weigh([{"test": "d: e", "wall": 3}, {"test": "d: e", "wall": 4.5}], path)
            self.assertEqual(plan.weights(path), {"a: b | c": 1.2, "d: e": 7.5})


class Output(unittest.TestCase):
    TAP = ["TAP version 13", "ok 1 - one (0.5 s)", "# why", "not ok 2 - two (12.0 s)", "ok 3 - three # SKIP no",
           "not ok 4 - four # TODO known", "ok", "    not ok 1 - of a part", "1..5"]  # fmt: skip
    CARGO = ["     Running unittests src/lib.rs (/c/target/debug/deps/weft_sim-0123abcd)", "test a ... ok",
             "test b ... FAILED", "test result: FAILED. 1 passed; 1 failed; 3 ignored; 0 measured; 0 filtered out; "
             "finished in 2.50s"]  # fmt: skip

    def test_results_are_counted(self):
        self.assertEqual(output.counts(self.TAP), output.Counts(2, 1, 2))
        self.assertEqual(output.counts(self.CARGO), output.Counts(1, 1, 3))
        self.assertEqual(output.counts(["1..0 # SKIP nothing here"]), output.Counts(0, 0, 1))

    def test_failures_are_shown_with_what_was_said_of_them(self):
        self.assertEqual(output.failures(self.TAP), ["# why", "not ok 2 - two (12.0 s)"])
        self.assertEqual(output.failures(self.CARGO), ["test b ... FAILED"])

    def test_long_accounts_are_cut_in_the_middle(self):
        shown = output.failures([*(f"# {n}" for n in range(100)), "not ok 1 - it"])
        self.assertEqual(len(shown), output.FIRST + output.LAST + 2)
        self.assertEqual((shown[0], shown[-2]), ("# 0", "# 99"))
        self.assertIn("52 lines", shown[output.FIRST])

    def test_times_are_read(self):
        self.assertEqual([t["wall"] for t in output.times(self.TAP)], [0.5, 12.0])
        self.assertEqual(output.times(self.CARGO), [{"name": "weft_sim (src/lib.rs)", "wall": 2.5}])


class Run(unittest.TestCase):
    """Commands side by side."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        folder = pathlib.Path(scratch.name) / "check"
        for module in (job, runner):
            patch = mock.patch.object(module, "FOLDER", folder)
            patch.start()
            self.addCleanup(patch.stop)
        patch = mock.patch.object(command, "TOP", pathlib.Path(scratch.name))
        patch.start()
        self.addCleanup(patch.stop)
        patch = mock.patch.object(command, "_OUTSIDE", "")
        patch.start()
        self.addCleanup(patch.stop)
        self.folder = folder
        self.said = open(os.devnull, "w")
        self.addCleanup(self.said.close)

    def run_all(self, *jobs, builds=(), lanes=2):
        made = runner.Runner(list(builds), list(jobs), lanes, self.said)
        return {result.job.name: result for result in made.run()}, made

    def test_what_a_suite_says_is_counted_and_kept(self):
        found, _ = self.run_all(job_of("good", 1), job_of("bad", 1, "echo '# why'; echo not ok 1 - it; exit 1"))
        self.assertEqual(found["good"].counts, output.Counts(1, 0, 0))
        self.assertEqual(found["bad"].counts, output.Counts(0, 1, 0))
        self.assertEqual((self.folder / "bad.failed").read_text(), "# why\nnot ok 1 - it\n")
        self.assertEqual((self.folder / "good.count").read_text(), "1 0 0\n")

    def test_nothing_is_left_of_pieces_of_another_time(self):
        old = self.folder / "good" / "old.log"
        old.parent.mkdir(parents=True)
        old.write_text("not ok 1 - it\n")
        self.run_all(job_of("good", 1))
        self.assertFalse(old.exists())
        self.assertEqual([path.name for path in (self.folder / "good").iterdir()], ["all.log"])

    def test_an_exit_status_alone_is_a_failure_and_so_is_no_test(self):
        found, _ = self.run_all(job_of("status", 1, "echo ok 1; exit 3"), job_of("silent", 1, "true"))
        self.assertEqual((found["status"].counts.failed, found["status"].note), (1, "exit status 3"))
        self.assertEqual((found["silent"].counts.failed, found["silent"].note), (1, "no test was run"))

    def test_what_outlasts_its_limit_is_stopped_with_all_that_it_started(self):
        line = "echo ok 1; sleep 1000 & echo $! >pid; wait"
        found, _ = self.run_all(job_of("late", 1, line, limit=0.01))
        self.assertEqual(found["late"].counts.failed, 1)
        pid = (self.folder.parent / "pid").read_text().strip()
        stat = pathlib.Path(f"/proc/{pid}/stat")
        self.assertTrue(not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z")

    def test_what_needs_a_build_waits_for_it(self):
        build = job.Job("build", "tools", "sleep 0.5; touch built", 1, 1, build=True)
        found, _ = self.run_all(job_of("user", 1, "[ -e built ] && echo ok 1", after=("tools",)), builds=[build])
        self.assertEqual(found["user"].counts, output.Counts(1, 0, 0))
        self.assertEqual(found["build/tools"].counts, output.Counts())

    def test_what_needs_a_build_that_fails_fails_and_does_not_run(self):
        build = job.Job("build", "tools", "echo broken; false", 1, 1, build=True)
        found, made = self.run_all(job_of("user", 1, "touch ran", after=("tools",)), builds=[build])
        self.assertEqual(found["user"].counts.failed, 1)
        self.assertFalse((self.folder.parent / "ran").exists())
        self.assertEqual(made.summary()[0].failed, 2)

    def test_no_more_run_at_a_time_than_there_are_lanes(self):
        line = "echo + >>seen; sleep 0.4; echo - >>seen; echo ok 1"
        self.run_all(*(job_of(f"j{n}", 1, line) for n in range(6)), lanes=2)
        now = most = 0
        for word in (self.folder.parent / "seen").read_text().split():
            now += 1 if word == "+" else -1
            most = max(most, now)
        self.assertEqual(most, 2)

    def test_what_runs_alone_does_so_in_the_end(self):
        line = "echo {0} >>seen; sleep 0.3; echo {0} >>seen; echo ok 1"
        jobs = [job_of(f"j{n}", 1, line.format(f"j{n}")) for n in range(3)]
        alone = [job_of(f"a{n}", 9, line.format(f"a{n}"), alone=True) for n in range(2)]
        self.run_all(*alone, *jobs, lanes=3)
        seen = (self.folder.parent / "seen").read_text().split()
        self.assertEqual(sorted(seen[:6]), ["j0", "j0", "j1", "j1", "j2", "j2"])
        self.assertEqual(seen[6:], ["a0", "a0", "a1", "a1"])

    def test_processor_time_is_that_of_all_that_a_job_has_started(self):
        burn = "bash -c 'while [ $SECONDS -lt 2 ]; do :; done'; echo ok 1"
        found, _ = self.run_all(job_of("busy", 1, burn), job_of("idle", 1, "sleep 1; echo ok 1"))
        self.assertGreater(found["busy"].core, 0.2)
        self.assertLess(found["idle"].core, 0.5)


class Kept(unittest.TestCase):
    """Results by commit, in a repository of their own."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.top = pathlib.Path(scratch.name) / "repository"
        self.where = pathlib.Path(scratch.name) / "results"
        self.top.mkdir()
        self.git("init", "--quiet")
        self.commit("one")

    def git(self, *words):
        who = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *words], cwd=self.top, check=True, stdout=subprocess.DEVNULL)

    def commit(self, text):
        (self.top / "tools").mkdir(exist_ok=True)
        (self.top / "tools" / "file").write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", text)

    def ran(self, name="debug", at=(1, 4), ok=True, begin=None):
        counts = output.Counts(3, 0 if ok else 1, 0)
        results = [runner.Result(job_of("lab", 1), counts)]
        begin = begin or record.tree(self.top)
        found = record.entry(name, at, begin, record.tree(self.top), results, 60, 90)
        # Several in a second have one name otherwise.
        self.clock = getattr(self, "clock", 1_700_000_000) + 60
        record.keep(found | {"time": self.clock}, self.where)

    def status(self):
        return status.status(record.kept(self.where), self.top)

    def test_parts_that_passed_are_told_with_what_changed_since(self):
        self.ran()
        self.commit("two")
        self.ran(at=(2, 4), ok=False)
        debug = self.status()["sets"]["debug"]
        self.assertEqual(debug["1/4"]["last"]["since"], {"commits": 1, "files": {"tools": 1}})
        self.assertEqual(debug["2/4"]["last"]["since"]["commits"], 0)
        self.assertFalse(debug["2/4"]["last"]["ok"])
        self.assertIsNone(debug["2/4"]["passed"])
        said = "\n".join(status.lines(self.status()))
        self.assertRegex(said, r"debug +1/4 +passed .*1 commits since, files changed: tools 1")
        self.assertRegex(said, r"debug +2/4 +FAILED .*this commit")
        self.assertRegex(said, r"kasan +1/4 +not run")

    def test_a_failure_does_not_hide_where_a_part_passed(self):
        self.ran()
        self.commit("two")
        self.ran(ok=False)
        its = self.status()["sets"]["debug"]["1/4"]
        self.assertEqual((its["last"]["ok"], its["passed"]["since"]["commits"]), (False, 1))

    def test_a_tree_with_changes_never_counts(self):
        (self.top / "new").write_text("not committed")
        self.assertTrue(record.tree(self.top)["dirty"])
        self.ran()
        self.assertIsNone(self.status()["sets"]["debug"]["1/4"]["last"])
        self.assertTrue(self.status()["dirty"])

    def test_a_tree_that_changes_meanwhile_never_counts(self):
        begin = record.tree(self.top)
        self.commit("two")
        self.ran(begin=begin)
        self.assertIsNone(self.status()["sets"]["debug"]["1/4"]["last"])

    def test_the_repository_stays_as_it_is(self):
        (self.top / "tools" / "file").write_text("changed")
        self.assertTrue(record.tree(self.top)["dirty"])
        said = subprocess.run(["git", "status", "--porcelain"], cwd=self.top, stdout=subprocess.PIPE, text=True)
        self.assertEqual(said.stdout, " M tools/file\n")

    def test_a_commit_that_does_not_lead_here_is_told(self):
        self.commit("aside")
        self.ran()
        self.git("reset", "--quiet", "--hard", "HEAD~1")
        its = self.status()["sets"]["debug"]["1/4"]
        self.assertIsNone(its["last"]["since"])
        self.assertIn("does not lead", "\n".join(status.lines(self.status())))


class Table(unittest.TestCase):
    def test_every_suite_is_in_a_set_and_names_builds_that_there_are(self):
        names = [each.name for each in suite.SUITES]
        self.assertEqual(len(names), len(set(names)))
        for each in suite.SUITES:
            self.assertTrue(each.sets and set(each.sets) <= suite.SETS.keys(), each.name)
            self.assertLessEqual(set(each.builds), suite.BUILDS.keys(), each.name)
            self.assertNotEqual(bool(each.command), each.lab is not None, each.name)

    def test_sets_and_suites_are_known_by_name(self):
        self.assertEqual(suite.named([])[0], "check")
        self.assertEqual([each.name for each in suite.named(["vng", "unit"])[1]], ["unit", "vng"])
        self.assertEqual(suite.named(["nonsense"]), (None, None))

    def test_quick_boots_once(self):
        (quick,) = [each for each in suite.SUITES if each.name == "quick"]
        self.assertEqual(len(json.loads(lab(*quick.lab, "--plan"))), 1)


class Tap(unittest.TextTestResult):
    """Results as they come."""

    def __init__(self, *args):
        super().__init__(*args)
        self.number = 0

    def _line(self, ok, test, why=""):
        self.number += 1
        for line in why.splitlines():
            print(f"# {line}")
        print(f"{'ok' if ok else 'not ok'} {self.number} - {test.id().partition('.tests.')[2] or test.id()}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self._line(True, test)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._line(False, test, self.failures[-1][1])

    def addError(self, test, error):
        super().addError(test, error)
        self._line(False, test, self.errors[-1][1])


def main():
    print("TAP version 13")
    tests = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    with open(os.devnull, "w") as silent:
        result = unittest.TextTestRunner(stream=silent, resultclass=Tap).run(tests)
    print(f"1..{result.number}")
    return 0 if result.wasSuccessful() and result.number else 1


if __name__ == "__main__":
    sys.exit(main())
