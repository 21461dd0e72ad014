package preflight

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Check names what on this machine would break a run, all at once, as an error. It opens and
// starts nothing.
func Check(r Run) error {
	d := r.demand()
	own := d.of(r.Loaders)
	var problems []string
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	machine := scenario.ThisMachine()
	if machine.Files > 0 {
		if problem := r.files(uint64(machine.Files)); problem != "" {
			say("%s", problem)
		}
	}
	if low, high, ok := portRange(); ok {
		if missing := r.ports(d, low, high); missing != "" {
			problems = append(problems, missing)
		}
	}
	if free := machine.Memory; free > 0 {
		need := own.memory() * int64(r.here()) // loaders on one machine have it all at once
		if r.OwnServer {
			need += d.serverMemory()
		}
		if need > free {
			say("memory: %d agents need about %d MiB, %d MiB are free. End what uses it; %s", own.agents*r.here(), need>>20, free>>20, r.fewer(float64(free)/float64(need)))
		}
	}
	if free, ok := freeDisk(r.Data); ok && r.Data != "" {
		if need := d.disk(); need > free {
			say("disk: the server may write about %d MiB to %s, %d MiB are free. Make room, or put its folder elsewhere: TMPDIR=/mnt/disk", need>>20, r.Data, free>>20)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return model.Errorf(model.Limited, "this machine cannot hold the run:\n  %s", strings.Join(problems, "\n  "))
}

// shippedFiles is how many files systems often let a process have open: the fleets of shipped
// scenarios that one server is to carry everywhere fit them.
const shippedFiles = 20_000

// files says what to do where so many are not enough; empty: they are.
func (r *Run) files(limit uint64) string {
	d := r.demand()
	open, ownServer := d.of(r.Loaders).connections, r.OwnServer
	if ownServer {
		open = d.connections // of all loaders; it inherits the limit
	}
	need := scenario.Files(open, ownServer)
	if uint64(need) <= limit {
		return ""
	}
	more := ""
	if ownServer {
		more = fmt.Sprintf(". Where it stays, so many agents need more than one server; muster load run muster-15000x4x10s plays the largest shipped fleet that one holds with %s", number.Count(shippedFiles))
	}
	return fmt.Sprintf("open files: %d connections need %d, the hard limit is %d. Raise it: ulimit -Hn %d as root, LimitNOFILE= of a unit, --ulimit nofile= of a container; %s%s",
		open, need, limit, need, r.fewer(float64(scenario.Connections(int(limit), ownServer))/float64(open)), more)
}

// fewer says how to make a run smaller, to this share of its size.
func (r *Run) fewer(share float64) string {
	return fmt.Sprintf("or play it smaller: --scale %.2g", max(0.01, 0.95*share*cmp.Or(r.Scenario.Scale, 1)))
}

func portRange() (low, high int, ok bool) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, 0, false
	}
	n, _ := fmt.Sscan(string(text), &low, &high)
	return low, high, n == 2
}
