package subject

import (
	"bytes"
	"os"
)

// mostSaid bounds what is quoted of a log.
const mostSaid = 200

// Fell is how the server ended by itself, with what its log says of that; empty: it did not. One
// that was started again by the script has fallen all the same.
func (s *Subject) Fell() string {
	s.mu.Lock()
	state := s.fell
	s.mu.Unlock()
	if state == "" {
		return ""
	}
	log, _ := os.ReadFile(s.Log)
	if said := lastCry(log); said != "" {
		return state + "; its log: " + said
	}
	return state
}

// lastCry is the line of a log that says why its process ended: that with which the last of Go's
// stacks begins, else the last one.
func lastCry(log []byte) string {
	var last, cry []byte
	for line := range bytes.Lines(log) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		last = line
		for _, begin := range [...]string{"panic: ", "fatal error: ", "SIG", "unexpected fault address", "runtime: out of memory"} {
			if bytes.HasPrefix(line, []byte(begin)) {
				cry = line
			}
		}
	}
	if cry == nil {
		cry = last
	}
	return string(bytes.ToValidUTF8(cry[:min(len(cry), mostSaid)], nil))
}
