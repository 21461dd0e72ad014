package handler

import (
	"fmt"
	"sync"
)

// mailed is what became of a mail that not every recipient could be sent at once.
type mailed struct {
	sent    string
	answers []string
	ended   map[string]error // by recipient: it has the mail, or is refused for good
}

// refused are the recipients that the server does not take, with its words.
func (m *mailed) refused(all []string) (list []error) {
	said := map[string]bool{}
	for _, to := range all {
		if err := m.ended[to]; err != nil && !said[to] {
			said[to] = true
			list = append(list, fmt.Errorf("%s: %w", to, err))
		}
	}
	return list
}

// mails are those of which somebody waits for the next attempt, by their message's key: who has
// one does not get it again with each. A restart forgets them, and so does one too many: then it
// comes again, with the id by which mail readers know it.
type mails struct {
	mu sync.Mutex
	by map[string]*mailed
}

const maxMails = 1000

func (m *mails) of(key string) *mailed {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.by[key]
}

// keep remembers one; nil: it is done.
func (m *mails) keep(key string, one *mailed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one == nil {
		delete(m.by, key)
		return
	}
	for other := range m.by {
		if m.by[key] != nil || len(m.by) < maxMails {
			break
		}
		delete(m.by, other)
	}
	if m.by == nil {
		m.by = map[string]*mailed{}
	}
	m.by[key] = one
}
