//go:build linux

package test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/muster/test/harness"
)

// TestZabbixTemplatesLintAndPlan imports each export in the folder that MUSTER_ZABBIX_TEMPLATES names: the output passes lint, and
// plan on an empty server.
func TestZabbixTemplatesLintAndPlan(t *testing.T) {
	folder := os.Getenv("MUSTER_ZABBIX_TEMPLATES")
	if folder == "" {
		t.Skip("name a folder with exports of Zabbix: MUSTER_ZABBIX_TEMPLATES=FOLDER")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	assert(t, err == nil && len(files) > 0, "no files in %s: %v", folder, err)
	s := harness.StartServer(t)
	s.Login()
	for _, file := range files {
		out := filepath.Join(t.TempDir(), "out.yaml")
		harness.Run(t, s.Env(), "import", "zabbix", file, "--out", out).Expect(0)
		if info, err := os.Stat(out); err == nil && info.Size() == 0 {
			continue // no item remains
		}
		harness.Run(t, s.Env(), "lint", out).Expect(0)
		harness.Run(t, s.Env(), "plan", "-f", out).Expect(0)
	}
}
