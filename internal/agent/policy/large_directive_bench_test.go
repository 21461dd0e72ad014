//go:build unix

package policy

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
)

// usedCPU returns the processor time of the test process and of all finished child processes.
func usedCPU() time.Duration {
	var sum int64
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		_ = syscall.Getrusage(who, &u) // cannot fail for the own process
		sum += u.Utime.Nano() + u.Stime.Nano()
	}
	return time.Duration(sum)
}

// BenchmarkLargeDirective runs a directive of 1,100 components in enforce mode on a machine that complies. The components
// are files, lines, settings, permissions, users and 200 packages. The figure includes the processor time of started programs.
func BenchmarkLargeDirective(b *testing.B) {
	testenv.Program(b, "dpkg-query", "dpkg")
	list, err := exec.Command("dpkg-query", "-W", "-f", `${Package}\n`).Output()
	testenv.NoError(b, err)
	packages := strings.Fields(string(list))
	n := newTestNode(b)
	n.Runner.Environ = []string{"PATH=/usr/bin:/bin"}
	methods := make([]string, 1100)
	for i := range methods {
		methods[i] = fmt.Sprintf(`{"component": "c%d", `, i) + strings.ReplaceAll([]string{
			`"fileContent": {"path": "$N/%/content", "content": "hello"}}`,
			`"fileLines": {"path": "$N/%/lines", "lines": ["line %"]}}`,
			`"fileKeyValue": {"path": "$N/%/settings", "key": "k", "value": "%"}}`,
			`"filePresent": {"path": "$N/%/present"}}`,
			`"filePermissions": {"path": "$N/bin", "mode": "0755"}}`,
			`"user": {"name": "root"}}`,
			`"fileContent": {"path": "$N/%/content", "content": "hello"}}`,
			`"filePresent": {"path": "$N/%/present"}}`,
			`"filePermissions": {"path": "$N/bin", "mode": "0755"}}`,
			`"package": {"name": "` + packages[i%len(packages)] + `"}}`,
			`"package": {"name": "` + packages[(i+400)%len(packages)] + `"}}`,
		}[i%11], "%", fmt.Sprint(i))
		testenv.NoError(b, os.MkdirAll(n.path(fmt.Sprint(i)), 0o755))
	}
	text := strings.Join(methods, ", ")
	n.run(true, text)
	before, started := usedCPU(), n.Runner.StartedCommands()
	for b.Loop() {
		if statuses, messages := n.run(true, text); strings.Count(statuses, "success") != len(methods) {
			b.Fatal(messages)
		}
	}
	b.ReportMetric(float64(n.Runner.StartedCommands()-started)/float64(b.N), "programs/run")
	b.ReportMetric(float64((usedCPU()-before).Milliseconds())/float64(b.N), "cpu-ms/run")
}
