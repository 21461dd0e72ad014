package sizing

import (
	"fmt"
	"slices"
	"strings"
)

// Sentence is what a machine carries, what that uses at 1× (or the smallest size that it
// carries), and what breaks first, in one sentence. Tries are in the order of their factors,
// none of them carried after one that is not.
func Sentence(tries []Try) string {
	var carried, usual, fails *Try
	for i := range tries {
		t := &tries[i]
		if !t.Carried() {
			fails = t
			break
		}
		carried = t
		if usual == nil || t.Factor == 1 {
			usual = t
		}
	}
	if carried == nil {
		if fails == nil {
			return "Nothing was tried."
		}
		b := fails.breaks()
		if b.unsure {
			return fmt.Sprintf("The size that this machine carries is unknown: at %s already %s.", fails.size(), b.why)
		}
		return fmt.Sprintf("This machine does not carry %s: %s.", fails.size(), b.says("breaks first"))
	}
	least, end := "", ""
	switch {
	case fails == nil:
		least, end = "at least ", "nothing broke"
	default:
		b := fails.breaks()
		if b.unsure {
			least, end = "at least ", fmt.Sprintf("at %s %s", fails.size(), b.why)
		} else {
			end = fmt.Sprintf("at %s %s", fails.size(), b.says("breaks first"))
		}
	}
	f := figuresOf(usual.Report, usual.States)
	return fmt.Sprintf("This machine carries %s%s; at %s the server uses %s; %s.", least, carried.size(), factor(usual.Factor), f.uses(), strings.TrimSuffix(end, "."))
}

// size is a try's, in words.
func (t *Try) size() string {
	return fmt.Sprintf("%s (%s agents, %s results/s)", factor(t.Factor), grouped(float64(t.Agents)), digits(t.Results))
}

func (b broke) says(verb string) string {
	if slices.Contains([]string{"open files", "ports", "the alerts", "the turns"}, b.what) {
		verb = strings.Replace(verb, "breaks", "break", 1)
	}
	return fmt.Sprintf("%s %s: %s", b.what, verb, strings.TrimSuffix(b.why, "."))
}

// Again says which sizes were played twice; empty: none.
func Again(tries []Try) string {
	var list []string
	for i := range tries {
		t := &tries[i]
		switch {
		case t.Before == nil:
		case t.Carried():
			list = append(list, fmt.Sprintf("%s was carried only when it was played once more: at first %s.", factor(t.Factor), strings.TrimSuffix((&Try{Report: t.Before}).breaks().why, ".")))
		default:
			list = append(list, factor(t.Factor)+" was played twice, and not carried either time.")
		}
	}
	return strings.Join(list, "\n")
}

// Later says what of the memory is not measured but reckoned; empty: nothing.
func Later(tries []Try) string {
	for i := range tries {
		if t := &tries[i]; t.Report != nil {
			if f := figuresOf(t.Report, t.States); f.later > 0 {
				return "Memory is that of the server, and what event states will take that had not come by yet: checks that run less often than the run lasted."
			}
		}
	}
	return ""
}
