"""Excluding options, both truth values for one place, and tabs."""
import argparse

def build():
	parser = argparse.ArgumentParser()
	parser.add_argument('--lr', type=float, default=.1)
	group = parser.add_mutually_exclusive_group(required=False)
	group.add_argument('--cpu', action='store_true')
	group.add_argument('--gpu', type=int, default=0)
	other = parser.add_argument_group('other').add_mutually_exclusive_group()
	other.add_argument('--fast', action='store_true', default=True)
	other.add_argument('--no-bias', dest='bias', action='store_false')
	other.add_argument('--bias', dest='bias', action='store_true')
	parser.set_defaults(bias=True)
	parser.add_argument('--tune', action='store_const', const=3, default=0)
	parser.add_argument('--device', default='cuda' if build else 'cpu')
	parser.add_argument('--amp', action=argparse.BooleanOptionalAction, default=True)
	parser.add_argument('--tags', action='append', default=[])
	parser.add_argument('-v', action='count', default=0)
	return parser

if __name__ == '__main__':
	opts = build().parse_args()
