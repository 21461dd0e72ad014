//go:build linux

package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// What root types on the machine of a server that is not root's leaves nothing that the
// server cannot read.
func TestRootKeepsFolderOwner(t *testing.T) {
	testenv.Root(t)
	t.Parallel()
	const uid = 4_000_003
	open, err := os.MkdirTemp("", "muster-test-") // others may look into it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(open) })
	s := harness.NewServer(t)
	s.Data = filepath.Join(open, "data")
	s.Context = filepath.Join(open, "context.yaml") // beside it the password's file
	s.Wrap = []string{testenv.Program(t, "setpriv", "util-linux"), "--reuid=4000003", "--regid=4000003", "--clear-groups"}
	for _, err := range []error{os.Chmod(open, 0o755), os.Mkdir(s.Data, 0o700), os.Chown(s.Data, uid, uid)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Args = append(s.Args, "--admin-password-file", "") // one is made: the file here is root's
	s.Start()
	as := func(args ...string) string {
		t.Helper()
		r := harness.Run(t, s.Env(), append(args, "--data", s.Data)...)
		if r.Code != 0 {
			t.Fatalf("muster %v: code %d\n%s%s", args, r.Code, r.Out, r.Errors)
		}
		if err := filepath.WalkDir(s.Data, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil // gone meanwhile
			}
			if info, err := e.Info(); err == nil && info.Sys().(*syscall.Stat_t).Uid != uid {
				t.Errorf("after muster %v %s is not the server's", args, path)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return r.Out
	}
	if out := as("auth", "reset-password"); !strings.Contains(out, "muster login") {
		t.Errorf("got %s", out)
	}
	s.Stop()
	as("auth", "reset-password")
	as("doctor", "restored")
	as("doctor", "repair")
	s.Start()
	s.Stop()

	if err := os.Chmod(open, 0o700); err != nil { // as /root is
		t.Fatal(err)
	}
	r := harness.Run(t, s.Env(), "doctor", "restored", "--data", s.Data)
	if r.Code != 6 || !strings.Contains(r.Errors, "a folder above it") {
		t.Errorf("code %d, %s", r.Code, r.Errors)
	}
}
