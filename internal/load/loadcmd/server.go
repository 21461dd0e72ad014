package loadcmd

import (
	"os"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// findServer makes the function that names the server's process now.
func findServer(pid string) (func() int, error) {
	if pid == "" {
		return nil, nil
	}
	if n, err := strconv.Atoi(pid); err == nil && n > 0 {
		return func() int { return n }, nil
	}
	read := func() int {
		text, err := os.ReadFile(pid)
		n, bad := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || bad != nil || n < 1 {
			return 0 // the server is being started anew
		}
		return n
	}
	if read() == 0 {
		return nil, model.Errorf(model.Invalid, "--server-pid %q: want a process number or a file that holds one", pid)
	}
	return read, nil
}
