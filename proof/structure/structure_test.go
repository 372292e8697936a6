package main

import (
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type imports map[string]*types.Package

func (i imports) Import(path string) (*types.Package, error) { return i[path], nil }

// checked returns a package whose files have these texts below their package
// clause, by their names.
func checked(t *testing.T, path string, texts map[string]string, from imports) *source {
	s := &source{folder: path, fset: token.NewFileSet()}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		file, err := parser.ParseFile(s.fset, path+"/"+name, "package "+path+"\n"+texts[name], 0)
		require.NoError(t, err)
		s.files = append(s.files, file)
	}
	require.NoError(t, s.check(path, from))
	return s
}

func TestKnot(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  int
	}{
		"one way": {map[string]string{"a": "func A() { B() }", "b": "func B() { C() }", "c": "func C() {}"}, 1},
		"in a circle": {map[string]string{
			"a": "func A() { B() }", "b": "func B() { C() }", "c": "func C() { A() }", "d": "func D() { A() }",
		}, 3},
		"by a field and a method": {map[string]string{
			"a": "type T[K any] struct{ f K }; func a() { new(T[int]).m() }", "b": "func (t T[K]) m() { _ = t.f }",
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, knot(checked(t, "p", tt.files, nil).references()))
		})
	}
}

func TestSpread(t *testing.T) {
	s := checked(t, "p", map[string]string{
		"a": "type T[K any] struct{}; type U int",
		"b": "func (T[K]) m() {}\nfunc (U) m() {}\nfunc (U) n() {}",
		"c": "func (*T[K]) n() {}",
	}, nil)
	require.Equal(t, []string{"T 2"}, s.spread(1))
	require.Empty(t, s.spread(2))
	name, lines := s.longest()
	require.Equal(t, "b 4", name+" "+string(rune('0'+lines)))
}

func TestCastBack(t *testing.T) {
	below := checked(t, "below", map[string]string{"a": strings.TrimSpace(`
type T struct { F, G any; List []any }
func R() (any, error) { return nil, nil }
type I interface { M(any) }
func own(t T) { _ = t.F.(string) }`)}, nil)
	above := checked(t, "above", map[string]string{"b": strings.TrimSpace(`
import "below"
func f(t below.T) { v := t.F; _, _ = v.(int); h(t.List[0]); _ = t.G }
func g() { v, _ := below.R(); switch v.(type) { case int: } }
func h(v any) { _ = v.(int) }
type i struct{}
func (i) M(v any) { _ = v.(int) }
func local() { var v any = 1; _ = v.(int) }`)}, imports{"below": below.types})
	require.Equal(t, []string{
		"below I.M: above/b:7", "below R: above/b:4", "below T.F: above/b:3", "below T.List: above/b:5",
	}, castBack([]*source{below, above}))
	require.Empty(t, castBack([]*source{above}), "of a package that does not count")
}
