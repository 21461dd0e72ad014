//go:build linux

package test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// Random valid and broken API requests cause no server error. The program schemathesis makes the requests from the
// OpenAPI document. No response has a status of 500 or more, and the server is ready afterwards. scripts/fuzz-api.sh
// runs this test where no other host can be reached.
func TestRandomRequestsCauseNoServerError(t *testing.T) {
	t.Parallel()
	program := os.Getenv("MUSTER_SCHEMATHESIS")
	if program == "" {
		testenv.Skip(t, "MUSTER_SCHEMATHESIS names no schemathesis", "make fuzz-api")
	}
	s := harness.StartServer(t)
	s.CLI("apply", "-f", filepath.Join(harness.Root(), "docs/examples/starter.yaml"))
	document := filepath.Join(t.TempDir(), "openapi.json")
	testenv.NoError(t, os.WriteFile(document, downloadAsAdmin(t, s, "/api/v1/openapi.json"), 0o600))
	for _, role := range []string{"", "alerts", access.Viewer, access.Operator, access.Admin} {
		t.Run("role="+role, func(t *testing.T) {
			args := []string{
				"run", document, "--url", "https://" + s.Listen, "--tls-verify", "false", "--checks", "not_a_server_error",
				"--phases", "examples,coverage,fuzzing", "--max-time", "30",
				"--max-redirects", "0", "--request-timeout", "20", "--continue-on-failure", "--suppress-health-check", "all", "--warnings", "off",
				// A watch does not end; a logout or a new password ends the token.
				"--exclude-path-regex", "/watch$|/logout$|/me/password$",
			}
			if role != "" {
				token := testenv.Value(s.API.Access.CreateToken(t.Context(), v1.TokenRequest{Role: role, Run: role == access.Admin}))(t)
				args = append(args, "--header", "Authorization: Bearer "+token.Secret)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, args...)
			cmd.Dir = t.TempDir()
			out, err := cmd.CombinedOutput()
			require(t, err == nil, "schemathesis: %v\n%s", err, strings.TrimSpace(string(out)))
			state, ready := s.Ready()
			require(t, ready, "the server is not ready: %s", state)
			t.Logf("%s", out)
		})
	}
}

// downloadAsAdmin returns the body of the response to a GET request with the administrator's token.
func downloadAsAdmin(t *testing.T, s *harness.Server, path string) []byte {
	t.Helper()
	request := testenv.Value(http.NewRequestWithContext(t.Context(), "GET", "https://"+s.Listen+path, nil))(t)
	request.Header.Set("Authorization", "Bearer "+adminToken(t, s))
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response := testenv.Value(c.Do(request))(t)
	defer response.Body.Close()
	require(t, response.StatusCode == http.StatusOK, "GET %s: %s", path, response.Status)
	return testenv.Value(io.ReadAll(response.Body))(t)
}
