package scenario

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/model"
)

// Machine is what a quick run is cut to. A zero is unknown, and binds nothing.
type Machine struct {
	Cores  int
	Memory int64 // bytes that are free
	Files  int   // that one process may hold open
}

// ThisMachine reads what Linux says of the one it runs on.
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

// lineOf is what follows a word at the beginning of a line.
func lineOf(text, word string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, word); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// What a machine carries easily, server and loader together: bench/results shows two to
// five times as much per core.
const (
	easyRate   = 5000   // results per second and core
	easyAgents = 2000   // per core: they connect within seconds, TLS and all
	easyValues = 50_000 // of items, per second and core

	baseMemory = 512 << 20 // bytes, of server and loader by themselves

	// usualMicros is about what a result takes of a core, server and loader together.
	usualMicros = 25
)

// Memory, measured generously, in bytes: of a simulated agent, and of what a server keeps for it.
const (
	PlainAgent   = 24 << 10
	TLSAgent     = 64 << 10
	PlainSession = 16 << 10 // at the server
	TLSSession   = 40 << 10
	AgentLedger  = 1 << 10 // also of agents that are away
	StateLedger  = 64
	ServerState  = 800
	ServerItem   = 2000
	TapedSignal  = 16 // of a recorded stream, shared by all of its copies
)

// Memory is about what server and loader take for it, in bytes.
func (s *Scenario) Memory() int64 {
	need := int64(s.States()) * (ServerState + StateLedger)
	for _, c := range s.Agents {
		each := int64(PlainAgent + PlainSession + AgentLedger)
		if c.TLS {
			each = TLSAgent + TLSSession + AgentLedger
		}
		for _, v := range c.Values {
			need += int64(c.Count*v.Items()) * ServerItem
		}
		need += int64(c.Count) * each
		if c.Recorded != nil && c.Recorded.head != nil {
			need += int64(c.Recorded.head.Signals) * TapedSignal
		}
	}
	return need
}

// Lacks is what the machine has too little of to play a scenario with a server of its own,
// in words; empty: nothing.
func (m Machine) Lacks(s *Scenario) string {
	if need := Files(s.Sessions(), true); m.Files > 0 && need > m.Files {
		return fmt.Sprintf("open files (%s, needs %s)", number.Count(m.Files), number.Count(need))
	}
	if need := s.Memory() + baseMemory/2; m.Memory > 0 && need > m.Memory {
		return fmt.Sprintf("memory (%s, needs %s)", model.Size(m.Memory).Approximate(), model.Size(need).Approximate())
	}
	return ""
}

// share is which part of a scenario's agents the machine carries easily, at most all: two
// digits, rounded down.
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
	bound(float64(m.Cores)*easyAgents, float64(s.Nodes("")))
	if m.Files > 0 {
		bound(float64(max(1, Connections(m.Files, true))), float64(s.Sessions()))
	}
	bound(float64(m.Memory-baseMemory)/2, float64(s.Memory()))
	if factor >= 1 {
		return 1
	}
	digits := math.Pow10(int(math.Floor(math.Log10(factor))) - 1)
	return max(1e-6, math.Round(math.Floor(factor/digits+1e-9)*digits*1e9)/1e9)
}
