package report

import (
	"cmp"
	"fmt"
	"time"
)

// Stopped tells how long a run lasted that was stopped early. The phase that it cut short is shown, and not judged.
type Stopped struct {
	After float64 `json:"after"`           // seconds since the timetable began, warm-ups included …
	Of    float64 `json:"of"`              // … and how many they were to be
	Phase string  `json:"phase,omitempty"` // the one that was cut short
	Whole int     `json:"whole"`           // measured phases, or steps, that were played to their end
	By    string  `json:"by,omitempty"`    // who or what ended the run; empty: whoever began it
}

// String returns a short text for titles: stopped after 3m20s of 10m0s.
func (s *Stopped) String() string {
	seconds := func(v float64) time.Duration { return time.Duration(v * float64(time.Second)).Round(time.Second) }
	text := fmt.Sprintf("stopped after %s of %s", seconds(s.After), seconds(s.Of))
	if s.By != "" {
		text += " by " + s.By
	}
	return text
}

// Sentence returns the sentence for the verdict.
func (s *Stopped) Sentence() string {
	name := cmp.Or(s.Phase, "the phase that was played")
	if s.Whole == 0 {
		return fmt.Sprintf("%s: no phase was played to its end, and no objective is judged", s)
	}
	return fmt.Sprintf("%s: %s was cut short and is not judged", s, name)
}

// OnlyStopped reports whether a run was stopped and nothing else is wrong.
func (rep *Report) OnlyStopped() bool { return rep.Stopped != nil && rep.well() }
