//go:build unix

package run

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestOnlyAllowedProgramsRun runs allowed and other programs, and expects only the allowed programs to run. The
// agent's PATH, not the check's, decides which file a name means.
func TestOnlyAllowedProgramsRun(t *testing.T) {
	dir, evil := t.TempDir(), t.TempDir()
	script := func(path, text string) {
		testenv.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	script(filepath.Join(dir, "check_good"), `echo "good $1 $MODE"`)
	script(filepath.Join(dir, "other"), "echo other")
	script(filepath.Join(evil, "check_good"), "echo evil")
	for link, to := range map[string]string{filepath.Join(evil, "linked"): filepath.Join(dir, "check_good"), filepath.Join(evil, "check_link"): "/bin/sh"} {
		testenv.NoError(t, os.Symlink(to, link))
	}
	allow, err := ParseAllowList([]string{"check_*", filepath.Join(dir, "oth*"), "echo one | tail -1", "env:MODE"})
	testenv.NoError(t, err)
	r := newTestRunner()
	r.Allow, r.Environ = allow, []string{"PATH=" + dir + ":/usr/bin:/bin"}
	good := filepath.Join(dir, "check_good")
	for _, c := range []struct {
		name string
		cmd  Command
		want string // empty: refused
	}{
		{"by name", Command{Argv: []string{"check_good", "a"}}, "good a"},
		{"by the path that the name means", Command{Argv: []string{good, "a"}}, "good a"},
		{"by an absolute pattern", Command{Argv: []string{filepath.Join(dir, "other")}}, "other"},
		{"by the name of an absolute pattern", Command{Argv: []string{"other"}}, "other"},
		{"a plain line", Command{Shell: "check_good  -w=10%"}, "good -w=10%"},
		{"a line with a quoted word", Command{Shell: "check_good 'a $(id) b'"}, "good a $(id) b"},
		{"a line that stands there", Command{Shell: "echo one | tail -1"}, "one"},
		{"a variable that stands there", Command{Shell: "check_good a", Env: map[string]string{"MODE": "x"}}, "good a x"},

		{"another program", Command{Argv: []string{"sh", "-c", "check_good"}}, ""},
		{"another program in a line", Command{Shell: "id"}, ""},
		{"two commands", Command{Shell: "check_good; id"}, ""},
		{"both or none", Command{Shell: "check_good && id"}, ""},
		{"a pipe", Command{Shell: "check_good | sh"}, ""},
		{"in the background", Command{Shell: "check_good & id"}, ""},
		{"substitution", Command{Shell: "check_good $(id)"}, ""},
		{"backquotes", Command{Shell: "check_good `id`"}, ""},
		{"a variable's value", Command{Shell: "check_good $HOME"}, ""},
		{"substitution between double quotes", Command{Shell: `check_good "$(id)"`}, ""},
		{"a second line", Command{Shell: "check_good\nid"}, ""},
		{"a carriage return", Command{Shell: "check_good\rid"}, ""},
		{"a backslash", Command{Shell: `check_good a\;id`}, ""},
		{"a file written", Command{Shell: "check_good >/tmp/x"}, ""},
		{"a file read", Command{Shell: "check_good </etc/passwd"}, ""},
		{"a pattern of files", Command{Shell: "check_good /etc/*"}, ""},
		{"a home", Command{Shell: "check_good ~root"}, ""},
		{"braces", Command{Shell: "check_good {a,b}"}, ""},
		{"a quote that does not end", Command{Shell: "check_good 'a; id"}, ""},
		{"a zero byte", Command{Shell: "check_good\x00id"}, ""},
		{"a variable before", Command{Shell: "LD_PRELOAD=/tmp/x.so check_good"}, ""},
		{"PATH before", Command{Shell: "PATH=" + evil + " check_good"}, ""},
		{"a builtin", Command{Shell: "exec id"}, ""},
		{"another builtin", Command{Shell: "eval id"}, ""},
		{"env", Command{Shell: "env check_good"}, ""},
		{"a listed line and more", Command{Shell: "echo one | tail -1; id"}, ""},
		{"a listed line and a blank", Command{Shell: "echo one | tail -1 "}, ""},
		{"a listed line's program", Command{Argv: []string{"echo", "one"}}, ""},
		{"the same name elsewhere", Command{Argv: []string{filepath.Join(evil, "check_good")}}, ""},
		{"a link to what is listed", Command{Argv: []string{filepath.Join(evil, "linked")}}, ""},
		{"a link with a listed name to what is not", Command{Argv: []string{filepath.Join(evil, "check_link"), "-c", "id"}}, ""},
		{"a relative path", Command{Argv: []string{"./check_good"}}, ""},
		{"a relative path without a dot", Command{Argv: []string{"bin/check_good"}}, ""},
		{"up and down again", Command{Argv: []string{dir + "/../" + filepath.Base(dir) + "/other"}}, ""},
		{"out of the folder", Command{Argv: []string{dir + "/oth/../../../bin/sh"}}, ""},
		{"two slashes", Command{Argv: []string{"/" + good}}, ""},
		{"a name with a line break", Command{Argv: []string{"id\ncheck_good"}}, ""},
		{"PATH of the check", Command{Argv: []string{"check_good"}, Env: map[string]string{"PATH": evil}}, ""},
		{"a library before all", Command{Argv: []string{"check_good"}, Env: map[string]string{"LD_PRELOAD": "/tmp/x.so"}}, ""},
		{"a file for the shell", Command{Argv: []string{"check_good"}, Env: map[string]string{"BASH_ENV": "/tmp/x"}}, ""},
		{"something to read", Command{Argv: []string{"check_good"}, Stdin: "id"}, ""},
		{"nothing", Command{Argv: []string{""}}, ""},
		{"an empty line", Command{Shell: " "}, ""},
	} {
		got := r.Run(context.Background(), c.cmd)
		text := strings.TrimSpace(string(got.Output))
		switch {
		case c.want == "" && (!got.Refused || got.Status != model.Unknown || !strings.HasPrefix(text, "refused on web01: the agent runs only the programs in its setting --allow-commands")):
			t.Errorf("%s: want it refused, got %v %q", c.name, got.Status, text)
		case c.want != "" && (got.Refused || got.Status != model.OK || text != c.want):
			t.Errorf("%s: want %q, got %v %q", c.name, c.want, got.Status, text)
		}
	}
	// Even if the list allows checks to set PATH, the agent's own PATH decides which program a name is.
	r.Allow, err = ParseAllowList([]string{"check_good", "env:*"})
	testenv.NoError(t, err)
	if got := r.Run(context.Background(), Command{Argv: []string{"check_good"}, Env: map[string]string{"PATH": evil}}); !strings.HasPrefix(string(got.Output), "good") {
		t.Errorf("PATH of the check: %q", got.Output)
	}
}

// TestInvalidAllowListIsRefused expects an error for each invalid entry in the list of allowed programs.
func TestInvalidAllowListIsRefused(t *testing.T) {
	for _, bad := range []string{"bin/x", "./x", "/a/../b", "[", "env:", "env:[", "/usr/bin/"} {
		if _, err := ParseAllowList([]string{bad}); model.ClassOf(err) != model.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if a, err := ParseAllowList(nil); a != nil || err != nil {
		t.Errorf("an empty list: %v %v", a, err)
	}
}
