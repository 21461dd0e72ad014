//go:build linux

package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// TestWindowsAgentUnderWine runs the agent for Windows with Wine. It joins, and the Template windows of the starter set
// has values. An item that only Linux has is unsupported, with the reason.
func TestWindowsAgentUnderWine(t *testing.T) {
	skipIfShort(t, "builds for another system")
	program, env := testenv.Wine(t)
	folder := t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(folder, "muster-agent.exe"), "./cmd/muster-agent")
	build.Dir, build.Env = harness.Root(), append(os.Environ(), "CGO_ENABLED=0", "GOOS=windows", "GOARCH=amd64")
	out, err := build.CombinedOutput()
	require(t, err == nil, "%v\n%s", err, out)

	s := harness.StartServer(t)
	s.Apply(`{apiVersion: muster/v1, kind: Template, metadata: {name: more}, spec: {targets: {nodes: [pane]}, items: [
  {key: "service.info[Eventlog]", interval: 2s}, {key: kernel.openfiles, interval: 2s}, {key: "registry.data[HKLM\\SOFTWARE\\Microsoft\\Windows NT\\CurrentVersion,CurrentVersion]", type: text, interval: 2s}]}}
---
` + windowsTemplate(t))
	a := s.NewAgent("pane")
	inWindows := func(path string) string { return "Z:" + strings.ReplaceAll(path, "/", `\`) }
	a.Process = harness.LaunchCommand(t, append(env, "MUSTER_TOKEN="+a.Token), append([]string{
		program, filepath.Join(folder, "muster-agent.exe"), "--state-dir", inWindows(a.State), "--name", a.Name,
	}, a.Args...)...)
	s.AwaitOutput("get nodes", "pane")
	s.AwaitOutput("get items --node pane", "kernel.openfiles: agents collect this key on Linux, macOS, FreeBSD only, not on windows", "6.1")
	harness.Until(t, 2*time.Minute, "the Template windows has values", func() (string, bool) {
		list := s.CLI("get", "items", "--node", "pane")
		for _, key := range []string{"proc.num", "system.uptime", "vfs.fs.size[C:,pused]", "vm.memory.size[available]", "vm.memory.size[pavailable]", "vm.vmemory.size[pavailable]", "service.info[Eventlog]"} {
			if !regexp.MustCompile(`(?m)` + regexp.QuoteMeta(key) + ` .* ok$`).MatchString(list) {
				return list, false
			}
		}
		return list, true
	})
}

// windowsTemplate returns the Template windows of the starter set.
func windowsTemplate(t *testing.T) string {
	for document := range strings.SplitSeq(readPage(t, "examples/starter.yaml"), "\n---\n") {
		if strings.Contains(document, "metadata: {name: windows,") {
			return document
		}
	}
	t.Fatal("the starter set has no Template windows")
	return ""
}
