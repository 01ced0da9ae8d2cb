import argparse, math, time
import torch
import data

parser = argparse.ArgumentParser(description='PyTorch Wikitext-2 RNN/LSTM/GRU/Transformer Language Model')
parser.add_argument('--data', type=str, default='./data/wikitext-2',
                    help='location of the data corpus')
parser.add_argument('--model', type=str, default='LSTM',
                    help='type of network (RNN_TANH, RNN_RELU, LSTM, GRU, Transformer)')
parser.add_argument('--emsize', type=int, default=200)
parser.add_argument('--lr', type=float, default=20)
parser.add_argument('--clip', type=float, default=0.25)
parser.add_argument('--batch_size', type=int, default=20, metavar='N')
parser.add_argument('--dropout', type=float, default=0.2, help='dropout (0 = no dropout)')
parser.add_argument('--tied', action='store_true')
parser.add_argument('--seed', type=int, default=1111)
parser.add_argument('--cuda', action='store_true', default=False)
parser.add_argument('--nhead', type=int, default=2)
parser.add_argument('--accel', action='store_true')
args = parser.parse_args()
if torch.cuda.is_available():
    if not args.cuda:
        print("WARNING: You have a CUDA device, so you should probably run with --cuda.")
corpus = data.Corpus(args.data)
