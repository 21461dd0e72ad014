package load

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
)

// PlanHash is the same for two configurations that play the same: the machines and their
// names, when each check runs, the first statuses, whom each fault strikes, and
// how fast virtual time runs.
func PlanHash(cfg Config) (string, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return "", err
	}
	r, err := newRun(cfg)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, a := range r.fleet {
		fmt.Fprintf(h, "%s %s\n", a.name, a.uid)
		for c, k := range a.class.checks {
			seq := r.sequence(a.base+uint64(c), 0)
			status := k.says.Status(a.index, c, nil, seq, 0, true)
			numbers(h, uint64(a.offset(c)*float64(k.interval)), uint64(k.interval), uint64(status))
		}
	}
	for _, p := range newScore(cfg.Scenario.Phases, 0) {
		numbers(h, uint64(p.from), uint64(p.to), uint64(p.virtual))
	}
	s, err := r.newScript()
	if err != nil {
		return "", err
	}
	for _, x := range s.strikes {
		fmt.Fprintf(h, "%s %v\n", what(&x.fault), x.checks)
		for _, a := range x.agents {
			fmt.Fprintln(h, a.name)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

func numbers(h hash.Hash, list ...uint64) {
	for _, n := range list {
		_ = binary.Write(h, binary.LittleEndian, n)
	}
}
