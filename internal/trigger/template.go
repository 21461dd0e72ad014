package trigger

import (
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// CompileForItems compiles an expression over the items of a Template, which are sorted by key. macro returns the values of
// macros; keys are compared as they are written.
func CompileForItems(items []model.Item, expression string, macro func(string) (string, error)) (*Program, error) {
	e, err := Parse(expression)
	if err != nil {
		return nil, err
	}
	return Compile(e, Scope{Macro: macro, Item: func(host, key string) (int, item.Type, error) {
		if host != "" {
			return 0, 0, fmt.Errorf("item /%s/%s: a trigger can read only items of its own node; leave the host empty: //%s", host, key, key)
		}
		i, ok := slices.BinarySearchFunc(items, key, func(i model.Item, key string) int { return strings.Compare(i.Key, key) })
		if !ok {
			return 0, 0, fmt.Errorf("the template has no item %s", key)
		}
		typ, _ := items[i].ValueType()
		return i, typ, nil
	}})
}
