package collect

import (
	"slices"

	"github.com/muster-fleet/muster/internal/item"
)

// shareOfTime returns the CPU's percentage of time in a state since the last collection. The second parameter of the
// item key names the state; now has the time in each of the states, and after them the time in others.
func (m *machine) shareOfTime(k *Key, states []string, now []float64) (item.Value, error) {
	column := slices.Index(states, k.Parameter(1, states[0]))
	if column < 0 {
		return item.Value{}, errUnknownMode(k, 1, states...)
	}
	before := m.exchangeCounters(k, now)
	if before == nil {
		return item.Value{}, nil
	}
	total := 0.0
	for i := range now {
		total += now[i] - before[i]
	}
	if total <= 0 {
		return item.Value{}, nil
	}
	return item.FromFloat((now[column] - before[column]) / total * 100), nil
}

// loadPerCPU returns the load of all CPUs, or that of one, as the first parameter of system.cpu.load selects.
func loadPerCPU(k *Key, load float64, cpus func() (uint32, error)) (item.Value, error) {
	switch k.Parameter(0, "all") {
	case "all":
		return item.FromFloat(load), nil
	case "percpu":
		n, err := cpus()
		return item.FromFloat(load / float64(max(n, 1))), err
	}
	return item.Value{}, errUnknownMode(k, 0, "all", "percpu")
}
