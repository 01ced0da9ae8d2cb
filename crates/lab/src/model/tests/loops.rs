//! The formulas as loops, one sequence at a time.

use super::{
    AttentionKind, BTreeMap, CrossSpec, GatePool, GptDims, Keep, KvPruneSpec, RaCtApply, RaCtSpec, RaCtStatistic,
    Selection,
};

pub(super) type Rows = Vec<Vec<f64>>;

/// A network as its named numbers, and how it computes, one sequence at a time.
pub(super) struct Loops {
    pub(super) dims: GptDims,
    pub(super) coupling: f64,
    pub(super) numbers: BTreeMap<String, Vec<f64>>,
}

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The error function, from its series; enough for the small arguments here.
pub(super) fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..60 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

/// 1 where a number is among the `k` largest.
pub(super) fn is_largest(row: &[f64], k: usize) -> Vec<bool> {
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
    let indices: Vec<usize> = order.into_iter().take(k).collect();
    (0..row.len()).map(|index| indices.contains(&index)).collect()
}

impl Loops {
    fn get(&self, name: &str) -> &[f64] {
        self.numbers.get(name).unwrap_or_else(|| panic!("no `{name}`"))
    }

    /// `x W (+ b)`, with the weight's rows being inputs.
    fn product(&self, x: &Rows, name: &str) -> Rows {
        let weight = self.get(&format!("{name}.weight"));
        let outputs = weight.len() / x[0].len();
        let bias = self.numbers.get(&format!("{name}.bias"));
        let row = |row: &Vec<f64>| {
            let column = |j: usize| {
                let sum: f64 = row.iter().enumerate().map(|(i, value)| value * weight[i * outputs + j]).sum();
                sum + bias.map_or(0.0, |bias| bias[j])
            };
            (0..outputs).map(column).collect()
        };
        x.iter().map(row).collect()
    }

    fn layer_norm(&self, x: &Rows, name: &str) -> Rows {
        let (gain, bias) = (self.get(&format!("{name}.weight")), self.get(&format!("{name}.bias")));
        let row = |row: &Vec<f64>| {
            let n = row.len() as f64;
            let mean = row.iter().sum::<f64>() / n;
            let variance = row.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
            let values = row.iter().map(|value| (value - mean) / (variance + 1e-5).sqrt());
            values.zip(gain.iter().zip(bias)).map(|(value, (gain, bias))| value * gain + bias).collect()
        };
        x.iter().map(row).collect()
    }

    /// Queries, keys and values of head `head`.
    fn heads(&self, x: &Rows, block: &str, head: usize, back: Option<&Rows>) -> (Rows, Rows, Rows) {
        let (d, width) = (self.dims.d_model, self.dims.d_model / self.dims.n_head);
        let crop =
            |rows: &Rows, start: usize| -> Rows { rows.iter().map(|row| row[start..start + width].to_vec()).collect() };
        match self.dims.block.attention {
            AttentionKind::Standard => {
                let qkv = self.product(x, &format!("{block}attn.c_attn"));
                (crop(&qkv, head * width), crop(&qkv, d + head * width), crop(&qkv, 2 * d + head * width))
            }
            AttentionKind::Folded { rank, per_head, .. } => {
                let qkv = self.product(x, &format!("{block}attn.c_attn"));
                let (mut queries, mut keys) = (crop(&qkv, head * width), crop(&qkv, d + head * width));
                let index = if per_head { head } else { 0 };
                let weight = |name: &str| self.get(&format!("{block}attn.{name}"))[index].max(1e-8);
                for (query, key) in queries.iter_mut().zip(&mut keys) {
                    for c in 0..width {
                        if c < width - rank {
                            query[c] *= weight("w_std");
                        } else {
                            std::mem::swap(&mut query[c], &mut key[c]);
                            query[c] *= weight("w_rec") * self.coupling;
                        }
                    }
                }
                (queries, keys, crop(&qkv, 2 * d + head * width))
            }
            AttentionKind::Latent { dim } => {
                let queries = crop(&self.product(x, &format!("{block}attn.q")), head * width);
                let map = |rows: &Rows, name: &str, inputs: usize, outputs: usize| -> Rows {
                    let maps = &self.get(&format!("{block}attn.{name}"))[head * inputs * outputs..][..inputs * outputs];
                    let column = |row: &Vec<f64>, j: usize| (0..inputs).map(|i| row[i] * maps[i * outputs + j]).sum();
                    rows.iter().map(|row| (0..outputs).map(|j| column(row, j)).collect()).collect()
                };
                let mut keys = self.product(x, &format!("{block}attn.k_down"));
                if let Some(back) = back {
                    let strength = self.coupling * self.get(&format!("{block}recip.alpha_attn"))[0];
                    for (key, back) in keys.iter_mut().zip(back) {
                        for (key, back) in key.iter_mut().zip(back) {
                            *key += strength * back;
                        }
                    }
                }
                let values = self.product(x, &format!("{block}attn.v_down"));
                (map(&queries, "q_latent", width, dim), keys, map(&values, "v_up", dim, width))
            }
        }
    }

    /// The gate of RA-CT for a row of attention weights that sees `visible` keys.
    fn ra_ct(&self, spec: &RaCtSpec, block: &str, head: usize, row: &[f64], visible: usize) -> f64 {
        let statistic = match spec.statistic {
            RaCtStatistic::Entropy => row.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum(),
            RaCtStatistic::Rms => (row.iter().map(|p| p * p).sum::<f64>() / visible as f64).sqrt(),
            RaCtStatistic::Max => row.iter().copied().fold(0.0, f64::max),
            RaCtStatistic::Topk | RaCtStatistic::None => {
                let mask = is_largest(row, spec.k);
                row.iter().zip(mask).filter(|(_, mask)| *mask).map(|(p, _)| p).sum()
            }
        };
        let (scale, bias) = (self.get(&format!("{block}ra_ct.scale")), self.get(&format!("{block}ra_ct.bias")));
        let gate = sigmoid(scale[head] * statistic + bias[head]);
        if spec.apply == RaCtApply::Weights || spec.output_mix { 1.0 - spec.alpha + spec.alpha * gate } else { gate }
    }

    /// Attention of one block: its output for the residual stream, and the mean of the heads' weights.
    fn attend(&self, x: &Rows, block: &str, gate: Option<&Rows>, back: Option<&Rows>) -> (Rows, Rows) {
        let spec = &self.dims.block;
        let (length, heads) = (x.len(), self.dims.n_head);
        let mut weights = vec![vec![vec![0.0; length]; length]; heads];
        let mut values = Vec::new();
        for (head, weights) in weights.iter_mut().enumerate() {
            let (queries, keys, head_values) = self.heads(x, block, head, back);
            values.push(head_values);
            let scale = (queries[0].len() as f64).sqrt();
            let score = |i: usize, j: usize| queries[i].iter().zip(&keys[j]).map(|(q, k)| q * k).sum::<f64>() / scale;
            for i in 0..length {
                let logit = |j: usize| match &spec.reciprocal {
                    Some(reciprocal) if i - j <= reciprocal.window => {
                        score(i, j) + self.coupling * self.get(&format!("{block}ra.alpha"))[0] * score(j, i)
                    }
                    _ => score(i, j),
                };
                let exponentials: Vec<f64> = (0..=i).map(|j| logit(j).exp()).collect();
                let sum: f64 = exponentials.iter().sum();
                for (j, exponential) in exponentials.into_iter().enumerate() {
                    weights[i][j] = exponential / sum;
                    if let (Some(gate), Some(_)) = (gate, &spec.gate) {
                        let alpha = self.get(&format!("{block}gate.alpha"))[0];
                        weights[i][j] *= 1.0 - self.coupling * alpha * (1.0 - gate[i][head]);
                    }
                }
            }
        }
        if let Some(prune) = &spec.kv_prune {
            for rows in &mut weights {
                prune_keys(prune, rows);
            }
        }
        let mean = |weights: &[Rows], i: usize| -> Vec<f64> {
            (0..length).map(|j| weights.iter().map(|rows| rows[i][j]).sum::<f64>() / heads as f64).collect()
        };
        let mut output_factor = vec![vec![1.0; heads]; length];
        if let Some(ra_ct) = &spec.ra_ct {
            for i in 0..length {
                let average = mean(&weights, i);
                for head in 0..heads {
                    let row = if ra_ct.head_average { &average } else { &weights[head][i] };
                    output_factor[i][head] = self.ra_ct(ra_ct, block, head, row, i + 1);
                }
                if ra_ct.apply == RaCtApply::Weights {
                    for head in 0..heads {
                        let factor = std::mem::replace(&mut output_factor[i][head], 1.0);
                        weights[head][i].iter_mut().for_each(|weight| *weight *= factor);
                    }
                }
            }
        }
        let head_outputs = |i: usize| -> Vec<f64> {
            let head_output = |head: usize| {
                let column = move |c: usize, values: &Rows, row: &[f64]| -> f64 {
                    row.iter().zip(values).map(|(weight, value)| weight * value[c]).sum()
                };
                let (values, row) = (&values[head], &weights[head][i]);
                let restart = self.numbers.get(&format!("{block}attn.restart"));
                let part = restart.map_or(0.0, |part| part[head].clamp(0.0, 0.5));
                let value = |c: usize| (1.0 - part) * column(c, values, row) + part * values[i][c];
                (0..values[0].len()).map(|c| value(c) * output_factor[i][head]).collect::<Vec<f64>>()
            };
            (0..heads).flat_map(head_output).collect()
        };
        let context: Rows = (0..length).map(head_outputs).collect();
        (self.product(&context, &format!("{block}attn.c_proj")), (0..length).map(|i| mean(&weights, i)).collect())
    }

    fn cross(&self, spec: &CrossSpec, block: &str, hidden: &Rows, weights: &Rows) -> Rows {
        let length = hidden.len();
        let mut kept_weights = weights.clone();
        for (i, row) in kept_weights.iter_mut().enumerate() {
            match spec.select {
                Selection::All => continue,
                Selection::TopK { k } => {
                    let mask = is_largest(row, k);
                    row.iter_mut().zip(mask).filter(|(_, is_kept)| !is_kept).for_each(|(weight, _)| *weight = 0.0);
                }
                Selection::Rms { tau } => {
                    let threshold = tau * (row.iter().map(|p| p * p).sum::<f64>() / (i + 1) as f64).sqrt();
                    row.iter_mut().filter(|weight| **weight < threshold).for_each(|weight| *weight = 0.0);
                }
            }
            let sum = row.iter().sum::<f64>().max(1e-8);
            if spec.normalize {
                for weight in row {
                    *weight /= sum;
                }
            }
        }
        let gather = |i: usize, c: usize| (0..length).map(|j| kept_weights[i][j] * hidden[j][c]).sum();
        let context: Rows = (0..length).map(|i| (0..hidden[0].len()).map(|c| gather(i, c)).collect()).collect();
        let down = self.product(&context, &format!("{block}cross.down"));
        let projection = if self.numbers.contains_key(&format!("{block}cross.up.weight")) {
            self.product(&down, &format!("{block}cross.up"))
        } else {
            down
        };
        let strength = self.coupling * self.get(&format!("{block}cross.alpha"))[0];
        added(hidden, &projection, strength)
    }

    fn hidden(&self, x: &Rows, block: &str) -> Rows {
        let activation = |name: &str| -> Rows {
            let gelu = |x: &f64| x * 0.5 * (1.0 + erf(x / 2.0_f64.sqrt()));
            let rows = self.product(x, &format!("{block}mlp.{name}"));
            rows.iter().map(|row| row.iter().map(gelu).collect()).collect()
        };
        let Some(spec) = self.dims.block.r_mlp else { return activation("c_fc") };
        let number = |name: &str| self.get(&format!("{block}mlp.{name}"))[0];
        let (standard, mut low) = (activation("up_std"), activation("up_low"));
        if spec.mixer {
            low = self.product(&low, &format!("{block}mlp.mixer"));
        }
        let scale = number("w_rec") * self.coupling * if spec.gate { number("gate_low") } else { 1.0 };
        let join = |(standard, low): (&Vec<f64>, &Vec<f64>)| {
            let standard = standard.iter().map(|value| value * number("w_std"));
            standard.chain(low.iter().map(|value| value * scale)).collect()
        };
        standard.iter().zip(&low).map(join).collect()
    }

    pub(super) fn logits(&self, tokens: &[usize]) -> Vec<f64> {
        let GptDims { d_model: d, n_layer, .. } = self.dims;
        let spec = &self.dims.block;
        let (wte, wpe) = (self.get("wte.weight"), self.get("wpe.weight"));
        let embed = |(i, token): (usize, &usize)| (0..d).map(|c| wte[token * d + c] + wpe[i * d + c]).collect();
        let mut x: Rows = tokens.iter().enumerate().map(embed).collect();
        let (mut gate, mut back): (Option<Rows>, Option<Rows>) = (None, None);
        for block in 0..n_layer {
            let block = format!("h.{block}.");
            let normal = self.layer_norm(&x, &format!("{block}ln_1"));
            let (output, weights) = self.attend(&normal, &block, gate.as_ref(), back.as_ref());
            let keys = spec.recip.map(|_| self.heads(&normal, &block, 0, back.as_ref()).1);
            x = added(&x, &output, 1.0);
            let normal = self.layer_norm(&x, &format!("{block}ln_2"));
            let mut hidden = self.hidden(&normal, &block);
            if let Some(keys) = keys {
                let strength = self.coupling * self.get(&format!("{block}recip.alpha_mlp"))[0];
                back = Some(self.product(&hidden, &format!("{block}recip.back")));
                let enrichment = if self.numbers.contains_key(&format!("{block}recip.enrich.weight")) {
                    self.product(&keys, &format!("{block}recip.enrich"))
                } else {
                    let matrix = self.get(&format!("{block}recip.back.weight"));
                    let dim = keys[0].len();
                    let column = |key: &Vec<f64>, m: usize| (0..dim).map(|l| key[l] * matrix[m * dim + l]).sum();
                    keys.iter().map(|key| (0..hidden[0].len()).map(|m| column(key, m)).collect()).collect()
                };
                hidden = added(&hidden, &enrichment, strength);
            }
            if let Some(cross) = &spec.cross {
                hidden = self.cross(cross, &block, &hidden, &weights);
            }
            if let Some(spec) = &spec.gate {
                let pooled = self.product(&hidden, &format!("{block}gate.pool"));
                let mean = |i: usize| -> Vec<f64> {
                    let window = match spec.pool {
                        GatePool::PrefixMean => &pooled[..=i],
                        GatePool::Token => &pooled[i..=i],
                        GatePool::SequenceMean => &pooled[..],
                    };
                    (0..spec.dim).map(|c| window.iter().map(|row| row[c]).sum::<f64>() / window.len() as f64).collect()
                };
                let means: Rows = (0..pooled.len()).map(mean).collect();
                let mut heads = self.product(&means, &format!("{block}gate.heads"));
                heads.iter_mut().flatten().for_each(|value| *value = sigmoid(*value));
                gate = Some(heads);
            }
            x = added(&x, &self.product(&hidden, &format!("{block}mlp.c_proj")), 1.0);
        }
        let x = self.layer_norm(&x, "ln_f");
        let logit = |row: &Vec<f64>, token: usize| (0..d).map(|c| row[c] * wte[token * d + c]).sum();
        x.iter().flat_map(|row| (0..self.dims.vocab_size).map(|token| logit(row, token))).collect()
    }
}

/// Keeps the keys of every row that had the most attention so far, per query that saw them.
pub(super) fn prune_keys(spec: &KvPruneSpec, rows: &mut Rows) {
    let old_rows = rows.clone();
    for (i, row) in rows.iter_mut().enumerate() {
        let importance: Vec<f64> = (0..=i)
            .map(|j| {
                let mass: f64 = old_rows[j..=i].iter().map(|row| row[j]).sum();
                if i - j < spec.recency { 2.0 } else { mass / (i - j + 1) as f64 }
            })
            .collect();
        let keep = match spec.keep {
            Keep::Count(count) => count,
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of the visible keys")]
            Keep::Part(part) => (part * (i + 1) as f64) as usize,
        };
        let mask = is_largest(&importance, keep.max(spec.recency));
        row.iter_mut().zip(mask).filter(|(_, mask)| !mask).for_each(|(weight, _)| *weight = 0.0);
        let sum: f64 = row.iter().sum();
        for weight in row {
            *weight /= sum;
        }
    }
}

pub(super) fn added(x: &Rows, y: &Rows, strength: f64) -> Rows {
    x.iter().zip(y).map(|(x, y)| x.iter().zip(y).map(|(x, y)| x + strength * y).collect()).collect()
}
