package intent

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// A resource belongs to whoever metadata.owner names: a team, a repository. An apply on
// behalf of an owner (ApplyOptions.Owner) writes that name on all it declares, and takes
// nothing from another owner without being told to; what belongs to nobody it takes, and
// says so. A change by hand leaves the owner as it is.

// sign writes the owner on a resource that is about to be applied.
func (a *application) sign(r *model.Resource) error {
	switch of := r.Metadata.Owner; {
	case a.opts.Owner == "" || of == a.opts.Owner:
	case of != "":
		return model.Errorf(model.Invalid, "%s says owner: %s, and this is an apply of %s", KeyOf(r), of, a.opts.Owner).
			WithHint("take metadata.owner out of the file, or move the file to the folder of %s", of)
	default:
		r.Metadata.Owner = a.opts.Owner
	}
	return nil
}

// own holds a resource against the owner on record. What would go to another owner is
// noted in a.foreign.
func (a *application) own(r *model.Resource, row Row, exists bool) (warnings []string) {
	if !exists {
		return nil
	}
	was := ownerOf(row)
	_, seen := a.opts.Expect[KeyOf(r)] // who names a revision has read it, owner and all
	if r.Metadata.Owner == "" && !seen {
		r.Metadata.Owner = was
	}
	now := r.Metadata.Owner
	switch {
	case was == now && (was == "" || a.opts.Owner != ""):
		return nil
	case was == "":
		return []string{"it belonged to nobody; from now on to " + now}
	case was == now:
		return []string{"it belongs to " + was + ", whose next apply undoes what its files do not say: change it there"}
	case a.opts.TakeOver:
		return []string{"taken over from " + was}
	case seen:
		return []string{"it belonged to " + was + ", whose next apply may take it back or be refused"}
	}
	a.foreign = append(a.foreign, foreign{KeyOf(r), was})
	return []string{"belongs to " + was}
}

// foreign is something that belongs to another owner.
type foreign struct {
	key   Key
	owner string
}

// foreigners refuses what belongs to others, all of it at once.
func (a *application) foreigners() error {
	if len(a.foreign) == 0 {
		return nil
	}
	owners := map[string][]string{}
	var order []string
	for _, f := range a.foreign {
		if owners[f.owner] == nil {
			order = append(order, f.owner)
		}
		owners[f.owner] = append(owners[f.owner], f.key.String())
	}
	said := make([]string, len(order))
	for i, owner := range order {
		verb := " belongs to "
		if len(owners[owner]) > 1 {
			verb = " belong to "
		}
		said[i] = model.ListFirst(owners[owner], 10) + verb + owner
	}
	return model.Errorf(model.Guarded, "%s; nothing was changed", strings.Join(said, "; ")).
		WithHint("agree with them, or take it out of your files; to have it from now on: --take-over")
}

// ownerOf is the owner on record; empty: nobody.
func ownerOf(row Row) string {
	var body struct {
		Metadata struct {
			Owner string `json:"owner"`
		} `json:"metadata"`
	}
	if json.Unmarshal(row.Body, &body) != nil {
		return ""
	}
	return body.Metadata.Owner
}

// disowned warns of what is deleted by hand though somebody declares it.
func disowned(row Row) []string {
	if owner := ownerOf(row); owner != "" {
		return []string{"it belongs to " + owner + ", whose next apply makes it again if its files still declare it"}
	}
	return nil
}

// misnamed warns of what is renamed by hand though somebody declares it.
func misnamed(row Row) []string {
	if owner := ownerOf(row); owner != "" {
		return []string{"it belongs to " + owner + ": change metadata.name in its files too, or its next apply makes a second node " + row.Name}
	}
	return nil
}

// refused are the reasons why this is not done: what belongs to others, what would leave
// a name without its handler, what changes too many nodes.
func (a *application) refused(affected int) error {
	reasons := slices.DeleteFunc([]error{a.foreigners(), a.unhandled, a.guard(affected)}, func(err error) bool { return err == nil })
	if len(reasons) == 0 {
		return nil
	}
	return reasons[0]
}
