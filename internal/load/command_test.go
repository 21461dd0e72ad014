package load

import (
	"strings"
	"testing"
	"time"
)

// What a command says last is in its error, and what it leaves running is not waited for.
func TestShell(t *testing.T) {
	t.Parallel()
	if err := Shell(t.Context(), "true"); err != nil {
		t.Error(err)
	}
	err := Shell(t.Context(), "echo first; echo the disk is gone >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "exit status 3: the disk is gone") {
		t.Errorf("%v", err)
	}
	began := time.Now()
	if err := Shell(t.Context(), "sleep 20 & echo begun"); err != nil || time.Since(began) > 15*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}
