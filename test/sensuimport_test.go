//go:build linux

package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// A dump of Sensu's goes in by import and apply, and its checks land on its entities.
func TestSensuImport(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	s.Start()
	s.WaitReady(time.Minute)
	s.Login()
	dump, err := filepath.Abs("../internal/sensuimport/testdata/dump.yaml")
	if err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(t.TempDir(), "muster.yaml")
	r := s.Try("import", "sensu", dump, "--out", made)
	if r.Code != 0 || r.Out != "" || !strings.Contains(r.Errors, "! "+dump+":1: CheckConfig default/Check_CPU: handler gone is not in these files\n") ||
		!strings.Contains(r.Errors, "marked !") || !strings.Contains(r.Errors, "muster plan -f "+made) {
		t.Errorf("%d %s%s", r.Code, r.Out, r.Errors)
	}
	if info, err := os.Stat(made); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if r := s.Try("import", "sensu", dump, "--strict"); r.Code != 20 || !strings.Contains(r.Out, "kind: Pipeline") {
		t.Errorf("%d", r.Code)
	}
	if r := s.Try("import", "sensu", "/nowhere/s.yaml"); r.Code == 0 || !strings.Contains(r.Errors, "there is no file") {
		t.Errorf("%d %s", r.Code, r.Errors)
	}
	if out := s.CLI("apply", "-f", made, "-m", "from Sensu", "--yes"); !strings.Contains(out, "check/check_cpu") {
		t.Errorf("%s", out)
	}
	harness.Until(t, time.Minute, "the check on its node", func() (string, bool) {
		out := s.CLI("describe", "node", "web01")
		return out, strings.Contains(out, "check_cpu")
	})
	// So does one of a namespace that the import makes, whose check names no subscription.
	room := filepath.Join(t.TempDir(), "room.yaml")
	if err := os.WriteFile(room, []byte("type: Namespace\napi_version: core/v2\nmetadata: {name: shop}\nspec: {}\n---\ntype: CheckConfig\napi_version: core/v2\n"+
		"metadata: {name: till, namespace: shop}\nspec: {command: \"true\", interval: 60, publish: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.CLI("import", "sensu", room, "--out", made)
	if out := s.CLI("apply", "-f", made, "--yes"); !strings.Contains(out, "group/shop/all") || strings.Contains(out, "does not exist") {
		t.Errorf("%s", out)
	}
	if out := s.CLI("get", "nodes", "-o", "wide"); !strings.Contains(out, "sw1") {
		t.Errorf("%s", out)
	}
}
