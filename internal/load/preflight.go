package load

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Memory of one simulated agent in this process, measured generously, in bytes.
const (
	plainAgent = 24 << 10
	tlsAgent   = 64 << 10
)

// preflight names what on this machine would break the run, all at once.
func preflight(c Config) error {
	var problems []string
	if limit, ok := openFiles(); ok && uint64(c.Agents)+200 > limit {
		problems = append(problems, fmt.Sprintf("open files: %d agents need %d, the hard limit is %d (raise it: ulimit -Hn, LimitNOFILE; or fewer --agents)",
			c.Agents, c.Agents+200, limit))
	}
	if low, high, ok := portRange(); ok && strings.HasPrefix(c.Server, "127.") {
		if need := (c.Agents + c.Sources - 1) / c.Sources; need > high-low {
			problems = append(problems, fmt.Sprintf("ports: %d connections from each of %d source addresses, the range %d-%d has %d (raise --sources)",
				need, c.Sources, low, high, high-low))
		}
	}
	if free, ok := freeMemory(); ok {
		each := int64(plainAgent)
		if c.TLS != nil {
			each = tlsAgent
		}
		need := each*int64(c.Agents) + int64(c.Fleet)*(1024+int64(c.Checks)*64) // those away have a ledger
		if need > free {
			problems = append(problems, fmt.Sprintf("memory: %d agents need about %d MiB, %d MiB are free", c.Agents, need>>20, free>>20))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return model.Errorf(model.Limited, "this machine cannot hold the run:\n  %s", strings.Join(problems, "\n  "))
}

func portRange() (low, high int, ok bool) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, 0, false
	}
	n, _ := fmt.Sscan(string(text), &low, &high)
	return low, high, n == 2
}

func freeMemory() (int64, bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kb << 10, err == nil
		}
	}
	return 0, false
}
