//go:build unix

package policy

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestEditsOfOddFiles edits files with unusual content by each policy method, and compares the resulting bytes.
// An audit must change nothing, enforce must repair, and a second run must find nothing to do. All other bytes
// of the file must stay.
func TestEditsOfOddFiles(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct{ method, before, after string }{
		"lines, no line end":            {`"fileLines": {"path": "$N/f", "lines": ["b"]}`, "a", "a\nb\n"},
		"lines, CRLF":                   {`"fileLines": {"path": "$N/f", "lines": ["a", "b"]}`, "a\r\nc\r\n", "a\r\nc\r\nb\r\n"},
		"lines, CRLF, no line end":      {`"fileLines": {"path": "$N/f", "lines": ["b"]}`, "a\r\nc", "a\r\nc\r\nb\r\n"},
		"lines, mixed line ends":        {`"fileLines": {"path": "$N/f", "lines": ["b"]}`, "a\r\nc\n", "a\r\nc\nb\n"},
		"lines, absent, CRLF":           {`"fileLines": {"path": "$N/f", "lines": ["b"], "absent": true}`, "a\r\nb\r\n", "a\r\n"},
		"lines, empty file":             {`"fileLines": {"path": "$N/f", "lines": ["b"]}`, "", "b\n"},
		"lines, long line":              {`"fileLines": {"path": "$N/f", "lines": ["b"]}`, long, long + "\nb\n"},
		"lines, zero bytes":             {`"fileLines": {"path": "$N/f", "lines": ["b"]}`, "a\x00\xff\n", "a\x00\xff\nb\n"},
		"lines, several in one text":    {`"fileLines": {"path": "$N/f", "lines": ["a\nb\n"]}`, "b\n", "b\na\n"},
		"lines, CRLF in one text":       {`"fileLines": {"path": "$N/f", "lines": ["a\r\nb\r\n"]}`, "", "a\nb\n"},
		"lines, CRLF in text and file":  {`"fileLines": {"path": "$N/f", "lines": ["a\r\nb\r\n"]}`, "a\r\n", "a\r\nb\r\n"},
		"lines, absent, several in one": {`"fileLines": {"path": "$N/f", "lines": ["a\nb"], "absent": true}`, "a\nc\nb\n", "c\n"},
		"key, CRLF":                     {`"fileKeyValue": {"path": "$N/f", "key": "k", "value": "2"}`, "k=1\r\nm=1\r\n", "k=2\r\nm=1\r\n"},
		"key, spaces around the value":  {`"fileKeyValue": {"path": "$N/f", "key": "k", "value": " 2 "}`, "k=1\n", "k= 2 \n"},
		"key, empty value":              {`"fileKeyValue": {"path": "$N/f", "key": "k", "value": ""}`, "k=1\n", "k=\n"},
		"block, CRLF":                   {`"fileBlock": {"path": "$N/f", "name": "x", "content": "b"}`, "a\r\n# BEGIN x\r\nold\r\n# END x\r\nc\r\n", "a\r\n# BEGIN x\r\nb\r\n# END x\r\nc\r\n"},
		"block, no line end":            {`"fileBlock": {"path": "$N/f", "name": "x", "content": "b"}`, "a", "a\n# BEGIN x\nb\n# END x\n"},
		"ini, CRLF":                     {`"fileIni": {"path": "$N/f", "section": "s", "key": "k", "value": "2"}`, "[s]\r\nk=1\r\n[t]\r\n", "[s]\r\nk = 2\r\n[t]\r\n"},
		"ini, comments behind headers":  {`"fileIni": {"path": "$N/f", "section": "s", "key": "k", "value": "2"}`, "[s] ; main\nm=1\n[t] # other\nk=1\n", "[s] ; main\nm=1\nk = 2\n[t] # other\nk=1\n"},
		"ini, spaces around the value":  {`"fileIni": {"path": "$N/f", "section": "s", "key": "k", "value": " 2"}`, "[s]\n", "[s]\nk =  2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newTestNode(t)
			n.write("f", c.before)
			methods := `{"component": "a", ` + c.method + `}`
			if status, messages := n.run(false, methods); status != "non-compliant" || n.read("f") != c.before {
				t.Fatalf("audit: %s: %s: %.100q", status, messages, n.read("f"))
			}
			for _, want := range []string{"repaired", "success"} {
				if status, messages := n.run(true, methods); status != want || n.read("f") != c.after {
					t.Fatalf("enforce: %s, want %s: %s: %.100q, want %.100q", status, want, messages, n.read("f"), c.after)
				}
			}
			if status, messages := n.run(false, methods); status != "compliant" {
				t.Errorf("audit again: %s: %s", status, messages)
			}
		})
	}
}

// TestLineBreaksInSettings expects the status "could not check" for declared keys, values and names with a line
// break. Written to the file, such a text would be added again with each run.
func TestLineBreaksInSettings(t *testing.T) {
	n := newTestNode(t)
	n.write("f", "k=1\n")
	for _, method := range []string{
		`"fileKeyValue": {"path": "$N/f", "key": "k", "value": "1\n2"}`, `"fileKeyValue": {"path": "$N/f", "key": " ", "value": "1", "separator": " "}`,
		`"fileBlock": {"path": "$N/f", "name": "a\nb", "content": "x"}`, `"fileIni": {"path": "$N/f", "key": "", "value": "1"}`,
	} {
		if status, messages := n.run(true, `{"component": "a", `+method+`}`); status != "could not check" || n.read("f") != "k=1\n" {
			t.Errorf("%s: %s: %s: %q", method, status, messages, n.read("f"))
		}
	}
}

// TestLinksToMissingFilesStay writes through links to missing files, and expects the links and the new files.
func TestLinksToMissingFilesStay(t *testing.T) {
	n := newTestNode(t)
	testenv.NoError(t, os.Mkdir(n.path("d"), 0o755))
	testenv.NoError(t, os.Symlink("../real", n.path("d/first")))
	testenv.NoError(t, os.Symlink("d/first", n.path("second")))
	testenv.NoError(t, os.Symlink(n.path("empty"), n.path("third")))
	testenv.NoError(t, os.Symlink("loop", n.path("loop")))
	const methods = `{"component": "a", "fileContent": {"path": "$N/second", "content": "x"}}, {"component": "b", "filePresent": {"path": "$N/third"}}`
	if status, messages := n.run(true, methods); status != "repaired, repaired" {
		t.Fatalf("%s: %s", status, messages)
	}
	if status, messages := n.run(true, methods); status != "success, success" {
		t.Errorf("again: %s: %s", status, messages)
	}
	if to, err := os.Readlink(n.path("second")); err != nil || to != "d/first" || n.read("real") != "x" || n.read("empty") != "" {
		t.Errorf("the link is %q, %v; the file has %q", to, err, n.read("real"))
	}
	if status, _ := n.run(true, `{"component": "a", "fileContent": {"path": "$N/loop", "content": "x"}}`); status != "could not check" {
		t.Errorf("a link to itself: %s", status)
	}
}

// TestReplacedFileKeepsItsGroup replaces a file in a setgid folder, and expects the old owner and group.
func TestReplacedFileKeepsItsGroup(t *testing.T) {
	if os.Getuid() != 0 {
		testenv.Skip(t, "files of other groups need root", "run the tests as root")
	}
	n := newTestNode(t)
	n.write("d/f", "old")
	testenv.NoError(t, os.Chown(n.path("d"), 0, 12))
	testenv.NoError(t, os.Chmod(n.path("d"), 0o755|os.ModeSetgid))
	for _, gid := range []int{0, 7} {
		testenv.NoError(t, os.Chown(n.path("d/f"), 3, gid))
		n.write("d/f", "old")
		if status, messages := n.run(true, `{"component": "a", "fileContent": {"path": "$N/d/f", "content": "new"}}`); status != "repaired" {
			t.Fatalf("%s: %s", status, messages)
		}
		stat := testenv.Value(os.Stat(n.path("d/f")))(t).Sys().(*syscall.Stat_t)
		if int(stat.Gid) != gid || stat.Uid != 3 {
			t.Errorf("owner %d, group %d, want 3 and %d", stat.Uid, stat.Gid, gid)
		}
	}
}

// TestHardLinkKeepsItsContent edits one of two hard links, and expects the old content in the other.
func TestHardLinkKeepsItsContent(t *testing.T) {
	n := newTestNode(t)
	n.write("f", "old")
	testenv.NoError(t, os.Link(n.path("f"), n.path("other")))
	if status, messages := n.run(true, `{"component": "a", "fileContent": {"path": "$N/f", "content": "new"}}`); status != "repaired" || n.read("f") != "new" || n.read("other") != "old" {
		t.Errorf("%s: %s: %q and %q", status, messages, n.read("f"), n.read("other"))
	}
}

// TestSparseFileIsNotReadWhole expects "could not check" for a file that is larger than the limit, within a moment.
func TestSparseFileIsNotReadWhole(t *testing.T) {
	n := newTestNode(t)
	n.write("f", "")
	testenv.NoError(t, os.Truncate(n.path("f"), 1<<36))
	if status, messages := n.run(true, `{"component": "a", "fileLines": {"path": "$N/f", "lines": ["x"]}}`); status != "could not check" || !strings.Contains(messages, "larger than 16MiB") {
		t.Errorf("%s: %s", status, messages)
	}
	if left, _ := filepath.Glob(n.path(".muster-*")); len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}
