//go:build linux

package test

import (
	"context"
	"database/sql"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver named sqlite

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// Data folders that a server cannot or must not use: the message names the thing, why,
// and what to type.
func TestRefusedDataFolders(t *testing.T) {
	t.Parallel()
	whole := harness.NewServer(t)
	whole.Start()
	whole.Stop()
	for _, c := range []struct {
		name  string
		code  int
		root  bool
		spoil func(t *testing.T, s *harness.Server)
	}{
		{"folder-of-another-user", 6, true, func(t *testing.T, s *harness.Server) {
			open, err := os.MkdirTemp("", "muster-test-") // others may look into it
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(open) })
			data := filepath.Join(open, "data")
			for _, err := range []error{os.Chmod(open, 0o755), os.Rename(s.Data, data), os.Chown(data, 4_000_001, -1)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			s.Data = data
			s.Wrap = []string{testenv.Program(t, "setpriv", "util-linux"), "--reuid=4000002", "--regid=4000002", "--clear-groups"}
		}},
		{"file-of-another-user", 6, true, func(t *testing.T, s *harness.Server) {
			open, err := os.MkdirTemp("", "muster-test-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(open) })
			data := filepath.Join(open, "data")
			for _, err := range []error{
				os.Chmod(open, 0o755), os.Rename(s.Data, data), os.Chown(data, 4_000_002, -1), os.Chown(filepath.Join(data, "LOCK"), 4_000_002, -1),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			s.Data = data
			s.Wrap = []string{testenv.Program(t, "setpriv", "util-linux"), "--reuid=4000002", "--regid=4000002", "--clear-groups"}
		}},
		{"folder-read-only", 9, true, func(t *testing.T, s *harness.Server) {
			if err := syscall.Mount(s.Data, s.Data, "", syscall.MS_BIND, ""); err != nil {
				testenv.LeftOut(t, "nothing can be mounted here: "+err.Error(), "sudo scripts/nightly.sh blackbox")
			}
			t.Cleanup(func() {
				if err := syscall.Unmount(s.Data, syscall.MNT_DETACH); err != nil {
					t.Errorf("unmount: %v", err)
				}
			})
			if err := syscall.Mount("", s.Data, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
		}},
		{"journal-of-a-newer-version", 4, false, func(t *testing.T, s *harness.Server) { editFormat(t, s, "muster journal 1", "muster journal 2") }},
		{"snapshots-of-a-newer-version", 4, false, func(t *testing.T, s *harness.Server) { editFormat(t, s, "store snapshots 1", "store snapshots 7") }},
		{"intent-of-a-newer-version", 4, false, func(t *testing.T, s *harness.Server) { setNewerSchema(t, s, "intent.db", "intent") }},
		{"history-of-a-newer-version", 4, false, func(t *testing.T, s *harness.Server) { setNewerSchema(t, s, "history.db", "history") }},
		{"disk-reports-errors", 9, false, func(t *testing.T, s *harness.Server) {
			s.Wrap = []string{
				testenv.Program(t, "strace", "strace"), "-D", "-f", "-qq", "-o", filepath.Join(t.TempDir(), "trace"), "-e", "signal=none",
				"-e", "trace=fdatasync", "-P", filepath.Join(s.Data, "journal", "00000000000000000001.log"), "-e", "inject=fdatasync:error=EIO",
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root {
				testenv.Root(t)
			}
			t.Parallel()
			s := whole.Clone()
			before := s.Data
			c.spoil(t, s)
			s.Launch()
			if code := s.Wait(30 * time.Second); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			golden(t, c.name+".txt", regexp.MustCompile(`this program knows \d+`).ReplaceAllString(outputBesideLog(s), "this program knows N"), s.Data, "DATA", before, "DATA")
		})
	}
}

// outputBesideLog is what a server said beside its log.
func outputBesideLog(s *harness.Server) string {
	var b strings.Builder
	for line := range strings.Lines(s.Log()) {
		if !strings.HasPrefix(line, "time=") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// editFormat changes a line of the journal's FORMAT.
func editFormat(t *testing.T, s *harness.Server, old, changed string) {
	t.Helper()
	path := filepath.Join(s.Data, "journal", "FORMAT")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, _, ok := strings.Cut(string(data), "crc ")
	if !ok || !strings.Contains(text, old+"\n") {
		t.Fatalf("no %q in\n%s", old, data)
	}
	text = strings.Replace(text, old+"\n", changed+"\n", 1)
	writeFile(t, path, fmt.Appendf(nil, "%scrc %08x\n", text, crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli))))
}

func setNewerSchema(t *testing.T, s *harness.Server, file, component string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(s.Data, file))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(context.Background(), `UPDATE schema_version SET version = 99 WHERE component = ?`, component); err != nil {
		t.Fatal(err)
	}
}

// The journal lies apart, and its disk is not there: no new journal is begun in the
// empty place, until somebody types that.
func TestMissingJournalDisk(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	apart := filepath.Join(filepath.Dir(s.Data), "apart")
	s.Args = []string{"--journal", apart}
	s.Start()
	s.Stop()
	if err := os.Rename(apart, apart+".gone"); err != nil {
		t.Fatal(err)
	}
	s.Launch()
	if code := s.Wait(30 * time.Second); code != 9 {
		t.Errorf("exit code %d, want 9", code)
	}
	golden(t, "journal-missing.txt", regexp.MustCompile(`commit \d+`).ReplaceAllString(outputBesideLog(s), "commit N"), s.Data, "DATA", apart, "APART")
	refusal := s.Log()

	// The disk is back: all is as before.
	if err := os.RemoveAll(apart); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(apart+".gone", apart); err != nil {
		t.Fatal(err)
	}
	s.Start()
	s.Stop()

	// It is lost: a new one.
	if err := os.RemoveAll(apart); err != nil {
		t.Fatal(err)
	}
	if said := runRepair(t, s, refusal); !strings.Contains(said, "commit 1 and all after it lost") {
		t.Errorf("repair says:\n%s", said)
	}
	s.Start()
	if !strings.Contains(s.Log(), "or of another server") {
		t.Errorf("the log:\n%s", s.Log())
	}
	s.Stop()
}
