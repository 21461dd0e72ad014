package load

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/model"
)

// Disk of a server under test, in bytes: its journal is cut as snapshots are saved, and
// never larger than its budget.
const (
	diskBase      = 512 << 20 // what is held back, databases, log
	diskResult    = 40        // beside its output
	journalBudget = 4 << 30
)

// Preflight names what on this machine would break a run, all at once, as an error; and
// what would spoil its figures. It opens and starts nothing, and looks at the machine for
// a second and a half.
func Preflight(c Config) (warnings []string, err error) {
	if c, err = c.withDefaults(); err != nil {
		return nil, err
	}
	if err := preflight(c); err != nil {
		return nil, err
	}
	if w := disturbed(othersFor(c.ServerPID, 1500*time.Millisecond), runtime.NumCPU()); w != "" {
		warnings = append(warnings, w)
	}
	return warnings, nil
}

// disturbs is the share of a machine from which on others spoil the figures of a run.
const disturbs = 0.1

// disturbed is the warning that others use so many cores; empty: they use next to nothing.
func disturbed(others float64, cores int) string {
	share := others / float64(cores)
	if share < disturbs {
		return ""
	}
	return fmt.Sprintf("this machine is busy: others use %.2f of its %d cores (%.0f %%), and figures of a machine shared with others cannot be repeated. "+
		"Wait, or end what runs (top)", others, cores, 100*share)
}

// othersFor is how many cores everybody but this process and the server used in a while
// from now on.
func othersFor(server func() int, while time.Duration) float64 {
	look := func() (at time.Time, others time.Duration) {
		others = usage.Busy() - usage.OfProcess(0).CPU
		if server != nil {
			if pid := server(); pid > 0 {
				others -= usage.OfProcess(pid).CPU
			}
		}
		return time.Now(), others
	}
	began, before := look()
	time.Sleep(while)
	ended, after := look()
	return max(0, (after-before).Seconds()/ended.Sub(began).Seconds())
}

func preflight(c Config) error {
	d := c.demand()
	own := d.of(c.Part)
	var problems []string
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	machine := scenario.ThisMachine()
	if machine.Files > 0 {
		if problem := c.files(uint64(machine.Files)); problem != "" {
			say("%s", problem)
		}
	}
	if low, high, ok := portRange(); ok {
		if missing := c.ports(d, low, high); missing != "" {
			problems = append(problems, missing)
		}
	}
	if free := machine.Memory; free > 0 {
		need := own.memory() * int64(c.Part.here()) // loaders on one machine have it all at once
		if c.Control != nil || c.Alone != "" {
			need += d.serverMemory()
		}
		if need > free {
			say("memory: %d agents need about %d MiB, %d MiB are free. End what uses it; %s", own.agents*c.Part.here(), need>>20, free>>20, c.fewer(float64(free)/float64(need)))
		}
	}
	if free, ok := freeDisk(c.Data); ok && c.Data != "" {
		if need := d.disk(c.Alone != ""); need > free {
			say("disk: the server may write about %d MiB to %s, %d MiB are free. Make room, or put its folder elsewhere: TMPDIR=/mnt/disk", need>>20, c.Data, free>>20)
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
func (c Config) files(limit uint64) string {
	d := c.demand()
	open, ownServer := d.of(c.Part).connections, c.Control != nil
	if ownServer {
		open = d.connections // of all loaders; it inherits the limit
	} else if c.Alone != "" {
		open = 2 * d.connections // a stage has the other ends
	}
	need := scenario.Files(open, ownServer)
	if uint64(need) <= limit {
		return ""
	}
	more := ""
	if ownServer && !c.isShort {
		more = fmt.Sprintf(". Where it stays, so many agents need more than one server; muster load run muster-15000x4x10s plays the largest shipped fleet that one holds with %s", scenario.Grouped(shippedFiles))
	}
	return fmt.Sprintf("open files: %d connections need %d, the hard limit is %d. Raise it: ulimit -Hn %d as root, LimitNOFILE= of a unit, --ulimit nofile= of a container; %s%s",
		open, need, limit, need, c.fewer(float64(scenario.Connections(int(limit), ownServer))/float64(open)), more)
}

// memory is what the simulated agents need; those that are away have a ledger.
func (d demand) memory() int64 {
	return int64(d.connections-d.withTLS)*scenario.PlainAgent + int64(d.withTLS)*scenario.TLSAgent +
		int64(d.agents)*scenario.AgentLedger + int64(d.states)*scenario.StateLedger + d.signals*scenario.TapedSignal
}

// serverMemory is what the server needs for them.
func (d demand) serverMemory() int64 {
	return int64(d.connections-d.withTLS)*scenario.PlainSession + int64(d.withTLS)*scenario.TLSSession + int64(d.states)*scenario.ServerState
}

// disk is what the server may have on it at the most. The journal of a stage alone keeps all:
// nobody cuts it.
func (d demand) disk(alone bool) int64 {
	written := d.results * (diskResult + d.output)
	if !alone {
		written = min(journalBudget, written)
	}
	return diskBase + int64(written) + 2*int64(d.states)*int64(diskResult+d.output)
}

// fewer says how to make a run smaller, to this share of its size.
func (c Config) fewer(share float64) string {
	if !c.isShort {
		scale := c.Scenario.Scale
		if scale == 0 {
			scale = 1
		}
		return fmt.Sprintf("or play it smaller: --scale %.2g", max(0.01, 0.95*share*scale))
	}
	return "or fewer --agents"
}

func portRange() (low, high int, ok bool) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, 0, false
	}
	n, _ := fmt.Sscan(string(text), &low, &high)
	return low, high, n == 2
}
