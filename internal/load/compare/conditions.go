package compare

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

const (
	muchFsync = 1.5  // times as slow
	muchLoad  = 0.5  // of the cores, before a run
	muchOther = 0.05 // of the cores, during a run
)

// conditions are what was measured of the machine before and beside the runs.
func conditions(base, other Set) (list []string) {
	if x, y := fsync(base), fsync(other); x > 0 && y > 0 && max(x, y) > muchFsync*min(x, y) {
		list = append(list, fmt.Sprintf("The disk was not as fast (an fsync took %.2f ms before the runs of %s, %.2f ms before those of %s): every acknowledgement waits for one.", x, base.Name, y, other.Name))
	}
	cores := 0.0
	for _, r := range base.Runs {
		cores = max(cores, float64(r.Machine.Cores))
	}
	if x, y := loadBefore(base), loadBefore(other); cores > 0 && max(x, y)-min(x, y) > muchLoad*cores {
		list = append(list, fmt.Sprintf("The machine was not as idle before (load %.1f before the runs of %s, %.1f before those of %s): what still ran then takes time from the run.", x, base.Name, y, other.Name))
	}
	if x, y := beside(base), beside(other); cores > 0 && max(x, y) > muchOther*cores {
		list = append(list, fmt.Sprintf("The machine was not alone with the runs (others used %.2f cores during %s, %.2f during %s, of %.0f): times and CPU suffer from it.", x, base.Name, y, other.Name, cores))
	}
	return append(list, turns(base, other)...)
}

func fsync(s Set) float64 {
	return middle(s, func(r *report.Report) (float64, bool) {
		if r.Environment == nil || r.Environment.Fsync.P50 == 0 {
			return 0, false
		}
		return r.Environment.Fsync.P50, true
	})
}

func loadBefore(s Set) float64 {
	return middle(s, func(r *report.Report) (float64, bool) {
		first, _, _ := strings.Cut(r.Machine.Load, " ")
		v, err := strconv.ParseFloat(first, 64)
		return v, err == nil
	})
}

func beside(s Set) float64 {
	return middle(s, func(r *report.Report) (float64, bool) { return r.Others, true })
}

// middle is the median of the runs that have it; 0 where none does.
func middle(s Set, of func(*report.Report) (float64, bool)) float64 {
	var values []float64
	for _, r := range s.Runs {
		if v, ok := of(r); ok {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0
	}
	return Median(values)
}

// turns says whether all runs of one side came before those of the other.
func turns(base, other Set) []string {
	span := func(s Set) (from, to time.Time) {
		for _, r := range s.Runs {
			if r.Began.IsZero() {
				return time.Time{}, time.Time{}
			}
			if from.IsZero() || r.Began.Before(from) {
				from = r.Began
			}
			if r.Began.After(to) {
				to = r.Began
			}
		}
		return from, to
	}
	a, b := span(base)
	c, d := span(other)
	if a.IsZero() || c.IsZero() || len(base.Runs)+len(other.Runs) < 3 || !b.Before(c) && !d.Before(a) {
		return nil
	}
	first, then := base, other
	if d.Before(a) {
		first, then = other, base
	}
	return []string{fmt.Sprintf("All runs of %s came before those of %s: whatever changed on the machine in between looks like a change of the program. --interleave takes turns.", first.Name, then.Name)}
}

// left are runs that are not compared.
func left(base, other Set) (list []string) {
	for _, s := range []Set{base, other} {
		if n := len(s.Runs) - len(valid(s.Runs)); n > 0 {
			list = append(list, fmt.Sprintf("%d of %d runs of %s are left out: their generator fell behind, and what they measured was not what was meant.", n, len(s.Runs), s.Name))
		}
	}
	return list
}

// missing are the figures that only the other side has, where both have runs that count.
func missing(name string, here, there map[string][]float64) []string {
	if len(here) == 0 {
		return nil
	}
	var names []string
	for _, f := range scenario.Figures() {
		if len(here[f.Name]) == 0 && len(there[f.Name]) > 0 {
			names = append(names, f.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Not measured in %s, and left out: %s.", name, strings.Join(names, ", "))}
}
