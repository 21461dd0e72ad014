package subject

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// traceSeconds is how long a runtime trace looks: it slows the server down, and grows fast.
const traceSeconds = 1

// profile is a profile that the admin listener serves.
type profile struct {
	name, what, path string // name of the file behind its prefix
}

// profiles returns the profiles of the same span, and the trace to take after them, because a trace slows the server down.
func profiles(seconds int) (together []profile, after profile) {
	span := strconv.Itoa(seconds)
	return []profile{
			{"cpu.pprof", "CPU profile of " + span + " s", "/debug/pprof/profile?seconds=" + span},
			{"mutex.pprof", "waits for locks within " + span + " s, one in ten", "/debug/pprof/mutex?seconds=" + span},
			{"block.pprof", "goroutines that waited within " + span + " s, waits of 100 µs and more", "/debug/pprof/block?seconds=" + span},
			{"allocs.pprof", "what was allocated within " + span + " s", "/debug/pprof/allocs?seconds=" + span},
			{"heap.pprof", "memory in use, and all that was ever allocated", "/debug/pprof/heap"},
			{"goroutine.pprof", "goroutines with their stacks", "/debug/pprof/goroutine"},
		}, profile{
			"trace.out", "runtime trace of " + strconv.Itoa(traceSeconds) + " s (go tool trace)", "/debug/pprof/trace?seconds=" + strconv.Itoa(traceSeconds),
		}
}

// Profile saves all profiles of the server over this many seconds into a folder, as PREFIX-cpu.pprof and so on, and
// returns descriptions of the files. The error names the profiles that failed; the others are kept.
func (s *Subject) Profile(ctx context.Context, dir, prefix string, seconds int) (map[string]string, error) {
	if s.Admin == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("keep profiles: %w", err)
	}
	var mu sync.Mutex
	taken, first := map[string]string{}, error(nil)
	take := func(p profile) {
		name := prefix + "-" + p.name
		data, err := s.get(ctx, p.path)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			taken[filepath.Join(filepath.Base(dir), name)] = p.what
		} else if first == nil {
			first = fmt.Errorf("take the profile %s: %w", name, err)
		}
	}
	together, after := profiles(seconds)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds+traceSeconds+20)*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for _, p := range together {
		all.Go(func() { take(p) })
	}
	all.Wait()
	take(after)
	return taken, first
}
