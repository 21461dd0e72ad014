package api

import (
	"sync"

	"github.com/muster-fleet/muster/internal/model"
)

// Every change of an event is compared with every watch, and a watch whose reader does
// not read holds what changed meanwhile.
const (
	maxWatches      = 256
	watchesPerToken = 32
)

// watchLimit counts watches, in all and of one token.
type watchLimit struct {
	mu sync.Mutex
	n  int
	by map[string]int
}

// enter counts one until leave.
func (l *watchLimit) enter(token string) (leave func(), err *model.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.by[token] >= watchesPerToken:
		return nil, model.Errorf(model.Limited, "this token has its %d watches", watchesPerToken).WithHint("end one of them, or give each program a token of its own: muster auth token create")
	case l.n >= maxWatches:
		return nil, model.Errorf(model.Limited, "this server has its %d watches", maxWatches).WithHint("end one of them")
	}
	if l.by == nil {
		l.by = map[string]int{}
	}
	l.n++
	l.by[token]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.n--
		if l.by[token]--; l.by[token] == 0 {
			delete(l.by, token)
		}
	}, nil
}
