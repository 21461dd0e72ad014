package handler

import (
	"fmt"
	"sync"
)

// mailProgress is the state of a mail that was not sent to all its recipients at once.
type mailProgress struct {
	sent    string
	answers []string
	ended   map[string]error // by recipient: it has the mail, or is refused for good
}

// refused are the recipients that the server does not take, with its words.
func (m *mailProgress) refused(all []string) (list []error) {
	said := map[string]bool{}
	for _, to := range all {
		if err := m.ended[to]; err != nil && !said[to] {
			said[to] = true
			list = append(list, fmt.Errorf("%s: %w", to, err))
		}
	}
	return list
}

// mails holds the progress of mails that wait for another attempt, by the keys of their messages: a recipient that has the
// mail does not get it again. A restart drops the progress, and so does one mail too many: then all recipients get the mail
// again, with the id by which mail readers drop duplicates.
type mails struct {
	mu sync.Mutex
	by map[string]*mailProgress
}

const maxMails = 1000

func (m *mails) of(key string) *mailProgress {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.by[key]
}

// keep remembers one; nil: it is done.
func (m *mails) keep(key string, one *mailProgress) {
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
		m.by = map[string]*mailProgress{}
	}
	m.by[key] = one
}
