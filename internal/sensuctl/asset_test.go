package sensuctl

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuimport"
)

// What sensuctl dump has of an asset is imported as what it was, in its order.
func TestAssetRoundTrip(t *testing.T) {
	a, b := strings.Repeat("a", 128), strings.Repeat("b", 128)
	url := "https://example.com/x.tar.gz"
	for _, builds := range [][]model.AssetBuild{
		{{SHA512: a, URL: url}},
		{{SHA512: a, URL: url, OS: "linux", Arch: "amd64", Distribution: "debian", DistributionVersion: "12"}},
		{{SHA512: a, OS: "linux"}, {SHA512: b, URL: url, OS: "linux", Arch: "arm64"}, {SHA512: b, URL: url}},
		{{SHA512: a, URL: url, Distribution: "redhat", DistributionVersion: "9.4"}, {SHA512: a, URL: url, Distribution: "rhel", DistributionVersion: "9.4"}},
	} {
		spec := &model.AssetSpec{Builds: builds}
		shown, _ := (&view{}).asset(&model.Resource{Kind: "Asset", Metadata: model.Metadata{Name: "x", Namespace: "default"}, Spec: spec})
		data, err := json.Marshal(object{"type": "Asset", "api_version": "core/v2", "spec": shown})
		if err != nil {
			t.Fatal(err)
		}
		got, err := sensuimport.Import([]sensuimport.File{{Name: "f", Data: data}}, kind.All(), time.Unix(0, 0))
		if err != nil || len(got.Resources) != 1 || !reflect.DeepEqual(got.Resources[0].Spec, spec) || got.LostCount() > 0 {
			t.Errorf("%s: %+v %v", data, got, err)
		}
	}
}
