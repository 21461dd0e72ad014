package gate

import (
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/load/report"
)

// Starved says who was starved by a faster pipeline in more than half of the runs, in a sentence of the last of them each.
// One run may be an accident of the machine's.
func Starved(runs []*report.Report) (list []string) {
	times, said := map[string]int{}, map[string]string{}
	var pairs []string
	for _, r := range runs {
		seen := map[string]bool{} // a pair may be named by two figures
		for i := range r.Phases {
			p := &r.Phases[i]
			for _, pair := range p.Starved {
				if seen[pair] {
					continue
				}
				seen[pair] = true
				if times[pair]++; times[pair] == 1 {
					pairs = append(pairs, pair)
				}
				if n := slices.IndexFunc(p.Missed, func(s string) bool { return strings.HasPrefix(s, pair+": ") }); n >= 0 {
					said[pair] = p.Missed[n]
				}
			}
		}
	}
	for _, pair := range pairs {
		if 2*times[pair] > len(runs) {
			list = append(list, said[pair])
		}
	}
	return list
}

// NotJudged says of whom there were too few answers, in sentences of the first run that says so.
func NotJudged(runs []*report.Report) (list []string) {
	for _, r := range runs {
		for i := range r.Phases {
			for _, who := range r.Phases[i].NotJudged {
				list = append(list, r.Phases[i].Name+" beside "+who)
			}
		}
		if len(list) > 0 {
			return list
		}
	}
	return nil
}
