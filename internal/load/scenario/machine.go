package scenario

import (
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Machine bounds a quick run. A zero is unknown, and binds nothing.
type Machine struct {
	Cores  int
	Memory int64 // bytes that are free
	Files  int   // that one process may hold open
}

// ThisMachine reads the bounds of this machine; elsewhere than on Linux the cores alone.
func ThisMachine() Machine {
	m := Machine{Cores: runtime.NumCPU()}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		kb, _ := strconv.ParseInt(strings.TrimSuffix(lineOf(string(text), "MemAvailable:"), " kB"), 10, 64)
		m.Memory = kb << 10
	}
	if text, err := os.ReadFile("/proc/self/limits"); err == nil {
		if words := strings.Fields(lineOf(string(text), "Max open files")); len(words) > 1 {
			m.Files, _ = strconv.Atoi(words[1]) // the hard limit: Go raises the soft one to it
		}
	}
	return m
}

// lineOf returns the rest of the line that begins with a word.
func lineOf(text, word string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, word); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// Load that a machine carries easily, server and loader together: bench/results shows two to five times as much per core.
const (
	easyRate   = 5000   // results per second and core
	easyAgents = 2000   // per core: they connect within seconds, TLS and all
	easyValues = 50_000 // of items, per second and core

	easyComponents = 25_000 // of directives, per second and core

	baseMemory = 512 << 20 // bytes, of server and loader by themselves

	usualMicros = 25 // CPU time of a result, server and loader together
)

const (
	otherFiles       = 200 // that a loader has open beside its agents' connections
	otherConnections = 50  // to a server, of other clients than its agents
)

// Connections returns the number of agents' connections of a loader that may open so many files. With a server of its
// own it is at most the number that the server admits, whose process has the same limit.
func Connections(files int, ownServer bool) int {
	n := files - otherFiles
	if ownServer {
		n = min(n, model.MaxConnections(files)-otherConnections)
	}
	return max(n, 0)
}

// Files returns the smallest limit of open files for so many connections.
func Files(connections int, ownServer bool) int {
	files := connections + otherFiles
	for {
		lacks := connections - Connections(files, ownServer)
		if lacks <= 0 {
			return files
		}
		files += lacks // one more file is at most one more connection
	}
}

// Memory in bytes, measured generously: of a simulated agent, and of its part of the server.
const (
	plainAgent   = 24 << 10
	tlsAgent     = 64 << 10
	plainSession = 16 << 10 // at the server
	tlsSession   = 40 << 10
	agentLedger  = 1 << 10
	stateLedger  = 64
	serverState  = 800
	serverItem   = 2000
	component    = 50 // of a directive, at server and loader

	numberBytes   = 10 // of a value in a frame
	textBytes     = 120
	documentBytes = 1100 // of a text with the values of dependent items, without these values
	fieldBytes    = 30   // of a value in it
	signedBytes   = 200  // of a run of a directive, without its codes
	spoolSeconds  = 60   // of signals that wait while the server is away
	mostSpool     = 1 << 20

	TapedSignal = 16 // of a recorded stream, shared by all of its copies
)

// Memory returns the estimated memory of loaders and server, in bytes.
func (s *Scenario) Memory() (loader, server int64) {
	states := int64(s.States())
	loader, server = states*stateLedger, states*serverState
	for _, c := range s.Agents {
		agent, session := int64(plainAgent+agentLedger), int64(plainSession)
		if c.TLS {
			agent, session = tlsAgent+agentLedger, tlsSession
		}
		loader, server = loader+int64(c.Count)*agent, server+int64(c.Count)*session
		for _, v := range c.Values {
			server += int64(c.Count*v.Items()) * serverItem
		}
		for _, p := range c.Policies {
			server += int64(c.Count*p.Components) * component
		}
		if c.Recorded != nil && c.Recorded.head != nil {
			loader += int64(c.Recorded.head.Signals) * TapedSignal
		}
		loader += int64(c.Count) * min(mostSpool, int64(spoolSeconds*c.signalRate()))
	}
	return loader, server
}

// valueBytes returns the bytes of the values that an agent sends in one signal.
func (c *Class) valueBytes() (n int) {
	for _, v := range c.Values {
		each := numberBytes
		switch {
		case v.Dependents > 0:
			each = documentBytes + v.Dependents*fieldBytes
		case v.Type == "text":
			each = textBytes
		}
		n += max(1, v.Count) * each
	}
	return n
}

// signalRate returns the bytes of the values and runs of directives that an agent sends in a second.
func (c *Class) signalRate() (perSecond float64) {
	if len(c.Values) > 0 {
		perSecond = float64(c.valueBytes()) / time.Duration(max(1, c.Values[0].Interval)).Seconds()
	}
	for _, p := range c.Policies {
		perSecond += float64(p.Components/2+max(1, p.Directives)*signedBytes) / time.Duration(max(1, p.Interval)).Seconds()
	}
	return perSecond
}

// memory returns the memory of loader and server together.
func (s *Scenario) memory() int64 {
	loader, server := s.Memory()
	return loader + server
}

// share returns the part of a scenario's agents that the machine carries easily, at most all: two digits, rounded down.
func (m Machine) share(s *Scenario) float64 {
	factor := 1.0
	bound := func(has, needs float64) {
		if has > 0 && needs > 0 {
			factor = min(factor, has/needs)
		}
	}
	most := 0.0
	for i := range s.Phases {
		if rates := s.Phases[i].Rates(); s.Phases[i].Step == 0 && s.Phases[i].Of == "" {
			most = max(most, rates[0])
		} else {
			most = max(most, 1) // the point of steps is to go beyond
		}
	}
	bound(float64(m.Cores)*easyRate, s.Rate()*most+s.KeepaliveRate())
	bound(float64(m.Cores)*easyValues, s.ValueRate())
	bound(float64(m.Cores)*easyComponents, s.ComponentRate())
	bound(float64(m.Cores)*easyAgents, float64(s.Nodes("")))
	if m.Files > 0 {
		bound(float64(max(1, Connections(m.Files, true))), float64(s.Nodes("")))
	}
	bound(float64(m.Memory-baseMemory)/2, float64(s.memory()))
	if factor >= 1 {
		return 1
	}
	digits := math.Pow10(int(math.Floor(math.Log10(factor))) - 1)
	return max(1e-6, math.Round(math.Floor(factor/digits+1e-9)*digits*1e9)/1e9)
}
