package load

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Shell runs a command of whoever wrote the run to its end; the error has the last line that
// it said. What it starts may outlive it, and say more: its words go to a file that has no
// name any more, and nobody waits for them.
func Shell(ctx context.Context, command string) error {
	said, err := os.CreateTemp("", "muster-load-run-")
	if err != nil {
		return fmt.Errorf("run %q: %w", command, err)
	}
	defer said.Close()
	_ = os.Remove(said.Name())
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Stdout, cmd.Stderr = said, said
	failed := cmd.Run()
	if failed == nil {
		return nil
	}
	end, _ := said.Seek(0, 1)
	tail := make([]byte, min(end, 4096))
	_, _ = said.ReadAt(tail, end-int64(len(tail)))
	lines := strings.Split(strings.TrimSpace(string(tail)), "\n")
	return model.Errorf(model.Invalid, "command %q: %v: %s", command, failed, lines[len(lines)-1])
}
