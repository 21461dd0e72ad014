package archive

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/muster-fleet/muster/internal/doctor"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/asset"
)

// ServeHTTP answers muster doctor: the archives of Assets that the store lacks or has damaged.
func (a *Archive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), doctor.LookAtAssets)
	defer cancel()
	report, err := a.examine(ctx)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(report) // an error means that the client went away
}

// examine reads the archives, one after the other, until ctx ends; Unread counts the rest.
func (a *Archive) examine(ctx context.Context) (out doctor.Assets, err error) {
	all, err := a.o.Assets(context.WithoutCancel(ctx))
	if err != nil {
		return out, err
	}
	troubles := map[asset.Sum]string{} // "": none
	for i := range all {
		at := &all[i].Metadata
		for _, b := range all[i].Spec.(*model.AssetSpec).Builds {
			sum, err := model.ParseAssetSum(b.SHA512)
			if err != nil {
				continue // validation refuses it
			}
			trouble, known := troubles[sum]
			if !known {
				if trouble = a.trouble(sum, b.URL != "", ctx.Err() == nil); trouble == unread {
					out.Unread++
					trouble = ""
				}
				troubles[sum] = trouble
			}
			if trouble != "" {
				out.Wrong = append(out.Wrong, doctor.WrongAsset{Asset: at.Namespace + "/" + at.Name, For: machinesOf(&b), Trouble: trouble,
					Mend: fmt.Sprintf("muster asset add %s FILE -n %s", at.Name, at.Namespace)})
			}
		}
	}
	out.Archives = len(troubles)
	return out, nil
}

// unread is the trouble of an archive that examine had no time to read.
const unread = "not read"

// trouble returns why agents cannot get an archive; empty: they can, or it is being fetched. fetched: an
// Asset has an address for it. read: compare a stored archive with its sum.
func (a *Archive) trouble(sum asset.Sum, fetched, read bool) string {
	if _, here := a.store.Size(sum); here {
		if !read {
			return unread
		}
		if err := a.store.Check(sum); err != nil {
			return firstLine(err)
		}
		return ""
	}
	switch state := a.State(sum); {
	case state.Trouble != "" && fetched:
		return "it cannot be fetched: " + state.Trouble
	case state.Trouble != "":
		return state.Trouble
	case fetched:
		return ""
	}
	return "nobody has uploaded it"
}

// firstLine returns an error without its hint.
func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// machinesOf names the machines of a build; empty: all.
func machinesOf(b *model.AssetBuild) string {
	var words []string
	for _, word := range []string{b.OS, b.Arch, b.Distribution, b.DistributionVersion} {
		if word != "" {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}
