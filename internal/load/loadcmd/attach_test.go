package loadcmd

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// TestServerThatNobodyIsLoggedInTo expects an error about the server of --server, not about the server of the login.
func TestServerThatNobodyIsLoggedInTo(t *testing.T) {
	inner := model.Errorf(model.Unavailable, "cannot reach it").WithHint("name another with --server")
	for address, login := range map[string]string{"10.0.0.7:8444": "muster login https://10.0.0.7:8443 ", "[::1]:8444": "muster login https://[::1]:8443 "} {
		err := otherServer(address, "the login is to https://a:8443", inner)
		if text := err.Error(); model.ClassOf(err) != model.Unavailable || !strings.Contains(text, "--server "+address+": the login is to https://a:8443: cannot reach it\n") || !strings.Contains(text, login) || strings.Contains(text, "another") {
			t.Errorf("%s", text)
		}
	}
}
