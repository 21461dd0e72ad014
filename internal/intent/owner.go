package intent

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// setOwner writes the owner of the apply on a resource.
//
// metadata.owner names a team or a repository. An apply for an owner (ApplyOptions.Owner) writes that name on all
// its resources and takes none of another owner unless told to; it takes resources without an owner and says so. A
// change by hand leaves the owner.
func (a *application) setOwner(r *model.Resource) error {
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

// checkOwner compares a resource with the owner on record and collects resources of other owners in a.foreign.
func (a *application) checkOwner(r *model.Resource, row Row, exists bool) (warnings []string) {
	if !exists {
		return nil
	}
	was := ownerOf(row)
	_, seen := a.opts.Expect[KeyOf(r)] // a caller that states a revision has read the owner
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
	a.foreign = append(a.foreign, foreignResource{KeyOf(r), was})
	return []string{"belongs to " + was}
}

// foreignResource is a resource of another owner.
type foreignResource struct {
	key   Key
	owner string
}

// refuseForeign refuses all resources of other owners at once.
func (a *application) refuseForeign() error {
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
	report := make([]string, len(order))
	for i, owner := range order {
		verb := " belongs to "
		if len(owners[owner]) > 1 {
			verb = " belong to "
		}
		report[i] = model.ListFirst(owners[owner], 10) + verb + owner
	}
	return model.Errorf(model.Guarded, "%s; nothing was changed", strings.Join(report, "; ")).
		WithHint("agree with them, or take it out of your files; to have it from now on: --take-over")
}

// ownerOf returns the owner on record; empty: none.
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

// deleteWarning warns when a person deletes a resource that an owner declares.
func deleteWarning(row Row) []string {
	if owner := ownerOf(row); owner != "" {
		return []string{"it belongs to " + owner + ", whose next apply makes it again if its files still declare it"}
	}
	return nil
}

// renameWarning warns when a person renames a node that an owner declares.
func renameWarning(row Row) []string {
	if owner := ownerOf(row); owner != "" {
		return []string{"it belongs to " + owner + ": change metadata.name in its files too, or its next apply makes a second node " + row.Name}
	}
	return nil
}

// describeOwned names a resource with its owner.
func describeOwned(r *model.Resource) string {
	if r.Metadata.Owner != "" {
		return KeyOf(r).String() + " (of " + r.Metadata.Owner + ")"
	}
	return KeyOf(r).String()
}

// refusal returns the first reason to refuse: resources of others, a dangling reference, too many changed nodes.
func (a *application) refusal(affected int) error {
	reasons := slices.DeleteFunc([]error{a.refuseForeign(), a.dangling, a.guard(affected)}, func(err error) bool { return err == nil })
	if len(reasons) == 0 {
		return nil
	}
	return reasons[0]
}
