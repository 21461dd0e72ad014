package pipes

import (
	"sync"

	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// Find reads the JavaScript of Assets; key identifies the contents. Where they are still known, it
// reads nothing.
type Find func(assets []string, known string) (list []filter.Library, key string, err error)

// scripted is JavaScript with libraries from Assets. It is compiled again when the libraries
// change.
type scripted[T any] struct {
	plain   T // without libraries
	assets  []string
	find    Find
	compile func([]filter.Library) (T, error)

	mu    sync.Mutex
	key   string
	whole T
	err   error // of compiling with the libraries
}

func newScripted[T any](find Find, assets []string, compile func([]filter.Library) (T, error)) (*scripted[T], error) {
	plain, err := compile(nil)
	return &scripted[T]{plain: plain, assets: assets, find: find, compile: compile}, err
}

// get returns the compiled program; the error names a missing asset or the fault in its JavaScript.
func (s *scripted[T]) get() (T, error) {
	if len(s.assets) == 0 {
		return s.plain, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list, key, err := s.find(s.assets, s.key)
	if err != nil {
		var none T
		return none, err
	}
	if key != s.key {
		s.key = key
		s.whole, s.err = s.compile(list)
	}
	return s.whole, s.err
}

// find calls Libraries where there are assets.
func (t *Table) find(assets []string, known string) ([]filter.Library, string, error) {
	if t.Libraries == nil {
		return nil, "", model.Errorf(model.Unavailable, "this server keeps no Assets")
	}
	return t.Libraries(assets, known)
}

// qualified returns Assets as NAMESPACE/NAME.
func qualified(of route.Name, refs []string) (list []string) {
	for _, ref := range refs {
		list = append(list, model.QualifyRef(of.Namespace, ref))
	}
	return list
}
