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

// templateKey names the compiled form of a Template: its definition, the macros that Properties set, and the discovered entities.
type templateKey struct {
	definition model.DefinitionID
	macros     string
	entities   [32]byte // hash of the states of its rules; zero: nothing was discovered
}

// compiledForms shares the compiled forms of Templates among nodes. Its references are weak: the memory of a form is freed when the
// last node leaves it.
type compiledForms struct {
	byKey    sync.Map // weak.Pointer[template] by templateKey
	compiles atomic.Uint64
}

// get returns the compiled form with a key; if no node has it yet, the function make compiles it.
func (f *compiledForms) get(key templateKey, make func() *template) *template {
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

// count returns the number of compiled forms in memory.
func (f *compiledForms) count() (n int) {
	f.byKey.Range(func(_, of any) bool {
		if of.(weak.Pointer[template]).Value() != nil {
			n++
		}
		return true
	})
	return n
}

// template returns the compiled form of a Template without entities. macros may be a part of a block.
func (v *View) template(definition *model.TemplateDefinition, macros string) *template {
	key := templateKey{definition: definition.ID, macros: strings.Clone(macros)}
	return v.forms.get(key, func() *template { return compile(definition, key.macros) })
}

// withEntities returns the compiled form of a template together with the items and triggers of discovered entities. Nodes with equal
// entities share it.
func (v *View) withEntities(t *template, made []*discovery.State) *template {
	key := compiledFormKey(t, made)
	if key.entities == [32]byte{} {
		return t
	}
	return v.forms.get(key, func() *template { return t.withEntities(made) })
}

// changeLimit limits how often the compiled form of a Template on a node changes: an agent chooses the lists of entities and the
// macros, and each change compiles the Template. It is the time, in Unix ns, at which the node has made up for its changes. It
// counts on the receive times of the journal, so that a replay decides the same. It is negative while the Template is held at its
// discovered items (DiscoveryMark).
type changeLimit int64

// Limits of the changes of a Template on a node.
const (
	changesAtOnce = 10
	changeEvery   = 10 * time.Second // then one change in this time
)

// allows reports whether another change is within the limit at a time.
func (l changeLimit) allows(now int64) bool { return now >= l.next() }

// next returns the earliest time of the next change.
func (l changeLimit) next() int64 {
	return int64(l.release()) - (changesAtOnce-1)*int64(changeEvery)
}

// isHeld reports whether the Template is held, so that new entities create no items.
func (l changeLimit) isHeld() bool { return l < 0 }

// hold returns the limit of a held Template.
func (l changeLimit) hold() changeLimit { return min(l, -l) }

// release returns the limit of a Template that is not held.
func (l changeLimit) release() changeLimit { return max(l, -l) }

// add returns the limit after a change at a time.
func (l changeLimit) add(now int64) changeLimit {
	out := changeLimit(min(max(int64(l.release()), now)+int64(changeEvery), now+changesAtOnce*int64(changeEvery)))
	if l.isHeld() {
		return out.hold()
	}
	return out
}
