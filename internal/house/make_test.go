package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
)

// makeFolder is a folder with the Makefile, one source and a PATH of its own.
type makeFolder struct {
	t   *testing.T
	dir string
}

func newMakeFolder(t *testing.T) makeFolder {
	f := makeFolder{t, t.TempDir()}
	for _, name := range []string{"Makefile", "scripts/build.sh"} {
		text, err := os.ReadFile(filepath.Join("../..", name))
		testenv.NoError(t, err)
		f.write(name, string(text))
	}
	f.write("cmd/main.go", "")
	f.write("go.mod", "")
	f.write("go.sum", "")
	testenv.NoError(t, os.Mkdir(filepath.Join(f.dir, "internal"), 0o755))
	for _, program := range []string{"awk", "bash", "cat", "cmp", "dirname", "env", "find", "make", "mkdir", "sh", "touch", "wc"} {
		path, err := exec.LookPath(program)
		testenv.NoError(t, err)
		testenv.NoError(t, os.MkdirAll(filepath.Join(f.dir, "path"), 0o755))
		testenv.NoError(t, os.Symlink(path, filepath.Join(f.dir, "path", program)))
	}
	return f
}

// write writes a file that may be run.
func (f makeFolder) write(name, text string) {
	f.t.Helper()
	file := filepath.Join(f.dir, name)
	testenv.NoError(f.t, os.MkdirAll(filepath.Dir(file), 0o755))
	testenv.NoError(f.t, os.WriteFile(file, []byte(text), 0o755))
}

// run runs make and returns its output.
func (f makeFolder) run(arguments ...string) (string, error) {
	cmd := exec.Command("make", append([]string{"SHELL=/bin/bash", "VERSION=1.0.0", "COMMIT=c"}, arguments...)...)
	cmd.Dir, cmd.Env = f.dir, []string{"PATH=" + filepath.Join(f.dir, "path")}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestMakeBuildsOnlyChangedSources expects a second make build to compile nothing, and messages while the first
// compiles.
func TestMakeBuildsOnlyChangedSources(t *testing.T) {
	f := newMakeFolder(t)
	f.write("path/go", "#!/bin/sh\ncase $1 in build) echo example.org/a; echo example.org/cmd/muster; echo built >bin/muster ;; *) echo go1 ;; esac\n")
	out, err := f.run("build")
	testenv.NoError(t, err)
	for _, want := range []string{"compiling bin/muster and bin/muster-agent with go1", "linking"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out, err := f.run("build"); err != nil || strings.Contains(out, "compiling") {
		t.Errorf("nothing has changed: %v\n%s", err, out)
	}
	if out, err := f.run("build", "VERSION=1.0.1"); err != nil || !strings.Contains(out, "compiling") {
		t.Errorf("another version: %v\n%s", err, out)
	}
	later := time.Now().Add(time.Second) // coarse clocks of file systems
	f.write("internal/b.go", "")
	testenv.NoError(t, os.Chtimes(filepath.Join(f.dir, "internal/b.go"), later, later))
	if out, err := f.run("build", "VERSION=1.0.1"); err != nil || !strings.Contains(out, "compiling") {
		t.Errorf("a new source: %v\n%s", err, out)
	}
	f.write("path/go", "#!/bin/sh\ncase $1 in build) echo '# example.org/a'; echo 'a.go:1:2: a fault'; exit 1 ;; *) echo go1 ;; esac\n")
	if out, err := f.run("build", "VERSION=1.0.2"); err == nil || !strings.Contains(out, "a.go:1:2: a fault") {
		t.Errorf("a fault in a source: %v\n%s", err, out)
	}
}

// TestMakeUpRunsWithoutGo expects make up to start bin/muster, else the installed program, and to print its version.
func TestMakeUpRunsWithoutGo(t *testing.T) {
	f := newMakeFolder(t)
	if out, err := f.run("up"); err == nil || !strings.Contains(out, "make up needs Go 1.26, bin/muster or an installed muster, and found none") {
		t.Errorf("%v\n%s", err, out)
	}
	const program = "#!/bin/sh\ncase $1 in --version) echo muster VERSION ;; *) echo \"started with $*\" ;; esac\n"
	for _, c := range []struct{ file, version, want string }{
		{"path/muster", "1.0.0", "path/muster: muster 1.0.0\nstarted with up --demo 3\n"},
		{"bin/muster", "2.0.0", "starting bin/muster: muster 2.0.0\nstarted with up --demo 3\n"},
	} {
		f.write(c.file, strings.ReplaceAll(program, "VERSION", c.version))
		if out, err := f.run("up", "ARGS=--demo 3"); err != nil || !strings.HasSuffix(out, c.want) {
			t.Errorf("%v, want %q in\n%s", err, c.want, out)
		}
	}
}
