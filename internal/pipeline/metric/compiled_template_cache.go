package metric

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/muster-fleet/muster/internal/discovery"
	"github.com/muster-fleet/muster/internal/model"
)

// templateKey is the key of a compiled Template, with its macros and discovered entities. It has the definition, the
// macros that Properties set, and the discovered entities.
type templateKey struct {
	definition model.DefinitionID
	macros     string
	entities   [32]byte // hash of the states of its rules; zero: nothing was discovered
}

// templateCache stores one copy of each compiled Template for all nodes with the Template. Its references are
// weak: the memory of a form is freed when the last node leaves it.
type templateCache struct {
	byKey    sync.Map // weak.Pointer[template] by templateKey
	compiles atomic.Uint64
}

// get returns the compiled Template for a key, and compiles a missing one. If no node has it yet, the function make
// compiles it.
func (f *templateCache) get(key templateKey, make func() *template) *template {
	known, ok := f.byKey.Load(key)
	if ok {
		if t := known.(weak.Pointer[template]).Value(); t != nil {
			return t
		}
	}
	t := make()
	f.compiles.Add(1)
	of := weak.Make(t)
	for {
		if ok && f.byKey.CompareAndSwap(key, known, of) {
			break
		}
		if known, ok = f.byKey.LoadOrStore(key, of); !ok {
			break
		}
		if other := known.(weak.Pointer[template]).Value(); other != nil {
			return other // another worker compiled it meanwhile
		}
	}
	runtime.AddCleanup(t, func(key templateKey) { f.byKey.CompareAndDelete(key, of) }, key)
	return t
}

// count returns how many compiled Templates are in memory now.
func (f *templateCache) count() (n int) {
	f.byKey.Range(func(_, of any) bool {
		if of.(weak.Pointer[template]).Value() != nil {
			n++
		}
		return true
	})
	return n
}

// template returns the compiled form of a Template, without discovered entities. macros may be a part of a block.
func (v *View) template(definition *model.TemplateDefinition, macros string) *template {
	key := templateKey{definition: definition.ID, macros: strings.Clone(macros)}
	return v.forms.get(key, func() *template { return compile(definition, key.macros) })
}

// withEntities returns the compiled form of a template with the items and triggers of discovered entities. Nodes with
// equal entities share it.
func (v *View) withEntities(t *template, made []*discovery.State) *template {
	key := compiledFormKey(t, made)
	if key.entities == [32]byte{} {
		return t
	}
	return v.forms.get(key, func() *template { return t.withEntities(made) })
}

// changeLimit limits how often the server compiles a Template again because of changes on a node. An agent
// chooses the lists of entities and the macros, and each change compiles the Template. It is the time, in Unix
// ns, at which the node has made up for its changes. It counts on the receive times of the journal, so that a
// replay decides the same. It is negative while the Template is held at its discovered items (DiscoveryMark).
type changeLimit int64

// Limits of how often a Template may change on a node.
const (
	changesAtOnce = 10
	changeEvery   = 10 * time.Second // then one change in this time
)

// allows reports whether a Template may change again at a given time.
func (l changeLimit) allows(now int64) bool { return now >= l.next() }

// next returns the earliest time at which the Template may change again.
func (l changeLimit) next() int64 {
	return int64(l.resumeDiscovery()) - (changesAtOnce-1)*int64(changeEvery)
}

// isDiscoveryPaused reports whether the Template may not create items of newly discovered entities.
func (l changeLimit) isDiscoveryPaused() bool { return l < 0 }

// pauseDiscovery returns the change limit with the creation of discovered items paused.
func (l changeLimit) pauseDiscovery() changeLimit { return min(l, -l) }

// resumeDiscovery returns the change limit with the creation of discovered items allowed again.
func (l changeLimit) resumeDiscovery() changeLimit { return max(l, -l) }

// add returns the change limit after one more change of a Template.
func (l changeLimit) add(now int64) changeLimit {
	out := changeLimit(min(max(int64(l.resumeDiscovery()), now)+int64(changeEvery), now+changesAtOnce*int64(changeEvery)))
	if l.isDiscoveryPaused() {
		return out.pauseDiscovery()
	}
	return out
}
