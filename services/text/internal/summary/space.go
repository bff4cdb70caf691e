package summary

import (
	"context"
	"math"

	"github.com/busbar-mcp/busbar/services/text/internal/term"
)

const (
	maxCompared = 200  // sentences compared pairwise; with more, the centroid is used
	damping     = 0.85 // of LexRank
	iterations  = 30   // upper bound of LexRank
	tolerance   = 1e-6
)

// weighted is one coordinate of a sentence.
type weighted struct {
	term   int
	weight float64
}

// space holds the sentences as tf-idf vectors of length 1.
type space struct {
	rows  [][]weighted // by sentence, in order of appearance
	terms int
}

// vectors builds the space of n sentences.
func vectors(n int, terms []term.Term) *space {
	index := make(map[string]int)
	var sentencesWith []int
	counts := make([]map[int]float64, n)
	order := make([][]int, n)
	for _, t := range terms {
		id, ok := index[t.Key]
		if !ok {
			id = len(sentencesWith)
			index[t.Key] = id
			sentencesWith = append(sentencesWith, 0)
		}
		row := counts[t.Sentence]
		if row == nil {
			row = make(map[int]float64)
			counts[t.Sentence] = row
		}
		if row[id] == 0 {
			sentencesWith[id]++
			order[t.Sentence] = append(order[t.Sentence], id)
		}
		row[id]++
	}
	s := &space{rows: make([][]weighted, n), terms: len(sentencesWith)}
	for i, ids := range order {
		norm := 0.0
		for _, id := range ids {
			// Smoothed, so that a word of every sentence still counts.
			w := counts[i][id] * (math.Log(float64(1+n)/float64(1+sentencesWith[id])) + 1)
			s.rows[i] = append(s.rows[i], weighted{id, w})
			norm += w * w
		}
		norm = math.Sqrt(norm)
		for j := range s.rows[i] {
			s.rows[i][j].weight /= norm
		}
	}
	return s
}

// score rates each sentence; higher is more central.
func (s *space) score(ctx context.Context) ([]float64, error) {
	var score []float64
	var err error
	if len(s.rows) <= maxCompared {
		score, err = s.lexRank(ctx)
	} else {
		score, err = s.centroid(ctx)
	}
	if err != nil {
		return nil, err
	}
	return score, nil
}

// centroid rates sentences by their cosine with the sum of all.
func (s *space) centroid(ctx context.Context) ([]float64, error) {
	sum := make([]float64, s.terms)
	for _, row := range s.rows {
		for _, w := range row {
			sum[w.term] += w.weight
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	score := make([]float64, len(s.rows))
	for i, row := range s.rows {
		for _, w := range row {
			score[i] += w.weight * sum[w.term]
		}
	}
	return score, nil
}

// lexRank rates sentences by PageRank over their cosines.
func (s *space) lexRank(ctx context.Context) ([]float64, error) {
	n := len(s.rows)
	links := make([][]float64, n)
	dense := make([]float64, s.terms)
	for i, row := range s.rows {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for _, w := range row {
			dense[w.term] = w.weight
		}
		links[i] = make([]float64, n)
		total := 0.0
		for j := range n {
			if i != j {
				links[i][j] = dot(dense, s.rows[j])
				total += links[i][j]
			}
		}
		if total > 0 {
			for j := range n {
				links[i][j] /= total
			}
		}
		for _, w := range row {
			dense[w.term] = 0
		}
	}
	rank := make([]float64, n)
	for i := range rank {
		rank[i] = 1 / float64(n)
	}
	next := make([]float64, n)
	for range iterations {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		change := 0.0
		for j := range n {
			sum := 0.0
			for i := range n {
				sum += rank[i] * links[i][j]
			}
			next[j] = (1-damping)/float64(n) + damping*sum
			change += math.Abs(next[j] - rank[j])
		}
		rank, next = next, rank
		if change < tolerance {
			break
		}
	}
	for i := range rank {
		if len(s.rows[i]) == 0 {
			rank[i] = 0 // no content words at all
		}
	}
	return rank, nil
}

// repeats reports whether sentence i is much like a chosen one. In long texts it finds only exact repeats,
// to stay linear.
func (s *space) repeats(i int, chosen []int) bool {
	if len(s.rows) > maxCompared || len(chosen) == 0 {
		return false
	}
	mine := make(map[int]float64, len(s.rows[i]))
	for _, w := range s.rows[i] {
		mine[w.term] = w.weight
	}
	for _, c := range chosen {
		sum := 0.0
		for _, w := range s.rows[c] {
			sum += mine[w.term] * w.weight
		}
		if sum > likeness {
			return true
		}
	}
	return false
}

func dot(dense []float64, row []weighted) float64 {
	sum := 0.0
	for _, w := range row {
		sum += dense[w.term] * w.weight
	}
	return sum
}
