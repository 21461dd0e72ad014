// Package preflight names the resources of this machine that are too small for a run, and other use of the machine that
// spoils its figures. busy.go measures the use by others.
//
// Goroutines: none. Locks: none. Start reading at Check.
package preflight

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Run describes a run before it begins.
type Run struct {
	Scenario  *scenario.Scenario
	Servers   string // host:port of each address that agents connect to, with commas between them; empty: unknown
	Sources   int    // loopback addresses to connect from
	Loaders   int    // that share it
	Here      int    // of them, on this machine
	OwnServer bool   // it starts the server itself
	Data      string // the server's folder, where it is on this machine
}

// here returns the number of loaders on this machine.
func (r *Run) here() int { return max(1, r.Here) }

// part returns the number of agents that one loader plays, of n.
func (r *Run) part(n int) int { return (n + max(1, r.Loaders) - 1) / max(1, r.Loaders) }

// Check returns a Limited error that names all resources of this machine that are too small for the run.
func Check(r Run) error {
	var problems []string
	add := func(problem string) {
		if problem != "" {
			problems = append(problems, problem)
		}
	}
	machine := scenario.ThisMachine()
	if machine.Files > 0 {
		add(r.files(uint64(machine.Files)))
	}
	if low, high, ok := portRange(); ok {
		add(r.ports(low, high))
	}
	agents := r.part(r.Scenario.Nodes("")) * r.here()
	loader, server := r.Scenario.Memory()
	need := loader / int64(max(1, r.Loaders)) * int64(r.here()) // loaders on one machine have it all at once
	if r.OwnServer {
		need += server
	}
	if free := machine.Memory; free > 0 && need > free {
		add(fmt.Sprintf("memory: %d agents need about %d MiB, %d MiB are free. End what uses it; %s", agents, need>>20, free>>20, r.fewer(float64(free)/float64(need))))
	}
	if free, ok := freeDisk(r.Data); ok && r.Data != "" {
		if need := r.disk(); need > free {
			add(fmt.Sprintf("disk: the server may write about %d MiB to %s, %d MiB are free. Make room, or put its folder elsewhere: TMPDIR=/mnt/disk", need>>20, r.Data, free>>20))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return model.Errorf(model.Limited, "this machine cannot hold the run:\n  %s", strings.Join(problems, "\n  "))
}

// shippedFiles is a usual limit of open files: the shipped fleets of one server fit it.
const shippedFiles = 20_000

// files describes a limit of open files that is too small, or returns an empty text.
func (r *Run) files(limit uint64) string {
	all := r.Scenario.Nodes("")
	open := r.part(all)
	if r.OwnServer {
		open = all // of all loaders; the server inherits the limit
	}
	need := scenario.Files(open, r.OwnServer)
	if uint64(need) <= limit {
		return ""
	}
	more := ""
	if r.OwnServer {
		more = fmt.Sprintf(". Where it stays, so many agents need more than one server; muster load run muster-15000x4x10s plays the largest shipped fleet that one holds with %s", number.Count(shippedFiles))
	}
	return fmt.Sprintf("open files: %d connections need %d, the hard limit is %d. Raise it: ulimit -Hn %d as root, LimitNOFILE= of a unit, --ulimit nofile= of a container; %s%s",
		open, need, limit, need, r.fewer(float64(scenario.Connections(int(limit), r.OwnServer))/float64(open)), more)
}

// fewer returns a hint about the flag that scales the run to this share.
func (r *Run) fewer(share float64) string {
	return fmt.Sprintf("or play it smaller: --scale %.2g", max(0.01, 0.95*share*cmp.Or(r.Scenario.Scale, 1)))
}

// Disk of a server under test, in bytes. Snapshots cut its journal, which has a budget.
const (
	diskBase      = 512 << 20 // held back, databases, log
	diskResult    = 40        // beside its output
	journalBudget = 4 << 30
)

// disk returns the most bytes that the server may write: journal within its budget, states and snapshots.
func (r *Run) disk() int64 {
	sc, outputs := r.Scenario, 0.0 // bytes per second
	for i := range sc.Agents {
		class := &sc.Agents[i]
		if recorded := class.Recorded; recorded != nil && recorded.Head() != nil {
			h := recorded.Head()
			outputs += float64(h.Bytes) / h.Length.Seconds() * float64(class.Count) / float64(h.Nodes)
			continue
		}
		for _, check := range sc.Held(class) {
			outputs += float64(check.Output.Length()) * float64(sc.PerInterval(class, check.Check)) / max(1e-3, time.Duration(check.Interval).Seconds())
		}
	}
	seconds := 0.0 // at the scenario's own rate
	for i := range sc.Phases {
		if p := &sc.Phases[i]; p.Drain == 0 {
			for _, rate := range p.Rates() {
				seconds += rate * time.Duration(p.Length()).Seconds()
			}
		}
	}
	rate := sc.Rate()
	result := diskResult + outputs/max(1e-9, rate)
	return diskBase + int64(min(journalBudget, rate*seconds*result)) + 2*int64(float64(sc.States())*result)
}

// freeDisk returns the free bytes of a folder, or of its first existing parent.
func freeDisk(dir string) (int64, bool) {
	for {
		free, err := disk.OS{}.Free(dir)
		parent := filepath.Dir(dir)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || parent == dir {
			return free, err == nil
		}
		dir = parent
	}
}

// portRange returns the range of local ports.
func portRange() (low, high int, ok bool) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, 0, false
	}
	n, _ := fmt.Sscan(string(text), &low, &high)
	return low, high, n == 2
}

// ports describes a range of local ports that is too small, or returns an empty text. Connections to one listener share
// the ports of their source address; loopback has many addresses, a machine has one.
func (r *Run) ports(low, high int) string {
	to := strings.Split(r.Servers, ",")
	if to[0] == "" || high <= low {
		return ""
	}
	connections, sources, loopback := r.part(r.Scenario.Nodes("")), 1, strings.HasPrefix(to[0], "127.")
	if loopback {
		sources = max(r.Sources, 1)
	} else {
		connections *= r.here() // each has loopback addresses of its own, and all together this one
	}
	need := (connections + sources*len(to) - 1) / (sources * len(to))
	if need <= high-low {
		return ""
	}
	text := fmt.Sprintf("ports: %d connections from each of %d source addresses", need, sources)
	if !loopback {
		text = fmt.Sprintf("ports: %d connections from one address to %s", need, to[0])
	}
	text += fmt.Sprintf(", the range %d-%d has %d. ", low, high, high-low)
	widen, smaller := "sysctl -w net.ipv4.ip_local_port_range='1024 65000'", r.fewer(float64(high-low)/float64(need))
	switch {
	case r.Scenario.AgainstSensu():
		return text + "Widen it: " + widen + "; " + smaller
	case loopback:
		return text + fmt.Sprintf("Use more addresses: --sources %d; or widen it: %s", (connections+high-low-1)/(high-low), widen)
	}
	return text + fmt.Sprintf("Widen it: %s; or share the agents out between loaders on other machines: --loaders %d; %s",
		widen, (r.Scenario.Nodes("")+high-low-1)/(high-low), smaller)
}
